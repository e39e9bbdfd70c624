"""The checks that every method must pass on any backbone, those of the package and your own."""

import json
from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np
import polars as pl
import torch
from torch import Tensor

from icpe.backbones import MF, LightGCN, NeuMF
from icpe.backbones.base import Backbone
from icpe.backbones.rows import RowParameter, read_through
from icpe.data.interactions import Interactions
from icpe.errors import IcpeError
from icpe.methods.base import Method
from icpe.recommender import Model
from icpe.rng import stream
from icpe.testing.logs import skewed_log
from icpe.train import Trainer, TrainSettings
from icpe.train.abilities import CustomSampling, item_bias, score_user
from icpe.train.batch import Batch
from icpe.train.sampling import Sampler

Make = Callable[[Backbone], Method]
SMALL: tuple[Callable[[], Backbone], ...] = (
    lambda: MF(dim=4, init_std=0.1),
    lambda: NeuMF(dim=4, layers=(8, 4), init_std=0.1),
    lambda: LightGCN(dim=4, layers=2),
)


def check_method(
    make: Make, backbones: Sequence[Callable[[], Backbone]] = SMALL, untouched: Collection[str] = ()
) -> None:
    """Run all checks on new methods; an AssertionError says which part of the contract is broken.

    Args:
        make: function that wraps an unbuilt backbone, always with the same settings.
        backbones: functions that make the backbones to try; by default small ones of all three kinds.
        untouched: names of trainable parameters that the first step may leave unchanged.

    Example:
        >>> from icpe.methods import Normal
        >>> check_method(lambda backbone: Normal(backbone, loss="bpr"), [lambda: MF(dim=2)])
    """
    for new_backbone in backbones:
        case = _Case(make, new_backbone)
        _check_settings(case)
        _check_one_step(case, untouched)
        _check_frozen(case)
        _check_finite(case)
        _check_seed(case)
        _check_scores(case)
        _check_hidden(case)
        _check_state(case)
        _check_continue(case)
        _check_owners(case)


def block_log(groups: int = 10, users: int = 8, items: int = 8, share: float = 0.8, seed: int = 0) -> Interactions:
    """Return a log of groups of users with their own items; each user has used about a share of the group's items.

    The group alone determines what a user likes; popularity says nothing about it.
    """
    rng = np.random.default_rng(seed)
    pairs = [
        (group * users + user, group * items + item)
        for group in range(groups)
        for user in range(users)
        for item in rng.permutation(items)[: max(1, round(share * items))]
    ]
    user, item = np.array(pairs, np.int32).T
    return Interactions.from_codes(pl.Series(range(groups * users)), pl.Series(range(groups * items)), user, item)


class _Stop(Exception):
    """Ends a run as soon as a check has what it needs."""


class _Case:
    """A method on a backbone, created again for each check."""

    def __init__(self, make: Make, new_backbone: Callable[[], Backbone]) -> None:
        self._make, self._new_backbone = make, new_backbone
        self.log = skewed_log(users=30, items=20, pairs=250)
        self.name = f"{type(self.method()).__name__} on {type(new_backbone()).__name__}"

    def method(self) -> Method:
        return self._make(self._new_backbone())

    def built(self, seed: int = 0, log: Interactions | None = None) -> Method:
        method = self.method()
        method.build(self.log if log is None else log, stream(seed, "start"))
        return method

    def trainer(self, seed: int = 0, **settings: Any) -> Trainer:
        return Trainer(self.method(), self.log, seed, TrainSettings(**{"batch_size": 8, "epochs": 1, **settings}))


def _check_settings(case: _Case) -> None:
    method = case.method()
    assert isinstance(method, Method), f"{case.name} is not a subclass of icpe.methods.Method"
    assert isinstance(getattr(method, "name", None), str), (
        f"{case.name}: the class has no name; set name: ClassVar[str]"
    )
    settings = method.settings.as_dict()
    assert json.loads(json.dumps(settings)) == settings, f"{case.name}: settings are not plain values: {settings}"
    again = type(method)(case.method().backbone, **settings).settings.as_dict()
    assert again == settings, f"{case.name}: rebuilt from its settings it has other settings: {again} not {settings}"
    undescribed = [one.name for one in method.Settings.declared() if not one.description]
    assert not undescribed, f"{case.name}: settings {undescribed} have no description; declare them with setting(…)"
    assert not list(method.parameters()), f"{case.name}: the constructor creates parameters; create them in build()"
    count = method.negatives.count
    assert count >= 0, f"{case.name}: negatives.count is {count}; expected at least 0"


def _first_step(case: _Case, freeze: bool = False) -> tuple[dict[str, Tensor], Trainer, Batch]:
    """Return the parameters before a step, the trainer after it, and the batch."""
    trainer = case.trainer(evaluate_every=1)
    method = trainer.method
    seen: list[Batch] = []
    loss = method.loss

    def noted(batch: Batch, rng: torch.Generator | None = None) -> Tensor:
        seen.append(batch)
        return loss(batch, rng)

    method.loss = noted  # type: ignore[method-assign]
    if freeze:
        for parameter in method.backbone.item_parameters():
            parameter.requires_grad_(False)
    before = {name: value.detach().clone() for name, value in method.named_parameters()}
    _run_until(trainer, 1)
    return before, trainer, seen[0]


def _run_until(trainer: Trainer, step: int) -> None:
    # Stop in the callback of a validation, because only there all rows are certainly up to date.
    def stop(record: dict[str, Any]) -> None:
        if record["step"] == step:
            raise _Stop

    try:
        trainer.run(on_evaluation=stop)
    except _Stop:
        return
    raise AssertionError(f"the run ended before step {step}")


def _check_one_step(case: _Case, untouched: Collection[str]) -> None:
    """G1: a step changes every parameter that the batch uses, but in row tables only the rows of the batch."""
    _gradients(case, {}, _batch(case, case.log, 5))  # report a broken step first
    before, trainer, batch = _first_step(case)
    after = dict(trainer.method.named_parameters())
    for name, grad in _gradients(case, before, batch).items():
        if name not in untouched:
            assert grad is not None, f"{case.name}: parameter {name} gets no gradient from a batch"
            # A parameter that does not affect the loss, such as the output bias of NeuMF in a softmax, may stay.
            moved = not torch.equal(before[name], after[name])
            assert moved or not grad.any(), f"{case.name}: one step leaves {name} unchanged"
    names = {id(parameter): name for name, parameter in after.items()}
    rows = (batch.users, torch.cat([batch.items, batch.negatives.reshape(-1)]))
    for tables, touched in zip(trainer.method.row_tables(), rows, strict=True):
        for table in tables:
            name = names[id(table)]
            rows_moved = (before[name] != table.detach()).any(1).nonzero()[:, 0]
            strange = sorted(set(rows_moved.tolist()) - set(touched.tolist()))
            assert not strange, f"{case.name}: a step moves rows {strange} of {name}, which are not in the batch"


def _gradients(case: _Case, start: dict[str, Tensor], batch: Batch) -> dict[str, Tensor | None]:
    """Return the dense gradients of the trainable parameters."""
    method = case.built().train()
    method.load_state_dict(start, strict=False)
    by_row = [_Rows(table) for tables in method.row_tables() for table in tables]
    with read_through([(rows.table, rows.take) for rows in by_row]):
        torch.autograd.backward(method.loss(batch, torch.Generator().manual_seed(0)))
    of_rows = {id(rows.table): rows.gradient() for rows in by_row}
    found: dict[str, Tensor | None] = {}
    for name, parameter in method.named_parameters():
        if parameter.requires_grad:
            # A table may be read by rows, as a whole (which is slower, but correct), or both.
            parts = [one for one in (of_rows.get(id(parameter)), parameter.grad) if one is not None]
            found[name] = torch.stack(parts).sum(0) if parts else None
    return found


class _Rows:
    """A reader of the rows of a table that records which rows were read."""

    def __init__(self, table: RowParameter) -> None:
        self.table = table
        self._taken: list[tuple[Tensor, Tensor]] = []

    def take(self, rows: Tensor) -> Tensor:
        copy = self.table.detach()[rows].requires_grad_()
        self._taken.append((rows, copy))
        return copy

    def gradient(self) -> Tensor | None:
        """Return the dense gradient of the table."""
        total = torch.zeros_like(self.table)
        for rows, copy in self._taken:
            if copy.grad is not None:
                total.index_add_(0, rows.reshape(-1), copy.grad.reshape(-1, total.shape[1]))
        return total if any(copy.grad is not None for _, copy in self._taken) else None


def _check_frozen(case: _Case) -> None:
    """G1: a step does not change frozen parameters."""
    before, trainer, _ = _first_step(case, freeze=True)
    for name, parameter in trainer.method.named_parameters():
        if not parameter.requires_grad:
            assert torch.equal(before[name], parameter), f"{case.name}: a step moves {name}, which is frozen"


def _check_finite(case: _Case) -> None:
    """G2: loss and gradients are finite for equal embeddings, for a batch of one pair, and for items used once."""
    once = Interactions.from_codes(
        pl.Series(range(6)), pl.Series(range(7)), np.arange(6, dtype=np.int32), np.arange(6, dtype=np.int32)
    )
    for log, what in ((case.log, "a skewed log"), (once, "a log where items are used once")):
        for size, batch in ((1, _batch(case, log, 1)), (5, _batch(case, log, 5))):
            for start in (None, 0.0, 0.1):
                method = case.built(log=log).train()
                if start is not None:
                    _fill(method, start)
                words = "start values" if start is None else f"all parameters at {start}"
                place = f"{case.name}: with {words}, a batch of {size} and {what}"
                loss = method.loss(batch, torch.Generator().manual_seed(0))
                assert loss.shape == (), f"{place}, the loss has the shape {tuple(loss.shape)}; expected one number"
                assert loss.isfinite(), f"{place}, the loss is {float(loss.detach())}"
                torch.autograd.backward(loss)
                for name, parameter in method.named_parameters():
                    grad = parameter.grad
                    assert grad is None or grad.isfinite().all(), f"{place}, the gradient of {name} is not finite"


def _fill(method: Method, value: float) -> None:
    with torch.no_grad():
        for parameter in method.parameters():
            parameter.fill_(value)


def _batch(case: _Case, log: Interactions, size: int) -> Batch:
    method = case.built(log=log)
    resample = method.sample if isinstance(method, CustomSampling) else None
    return Batch.of(next(Sampler(log, method.negatives, size, seed=0, resample=resample).epoch(0)))


def _check_seed(case: _Case) -> None:
    """G3: the same seed gives the same first 20 losses, and another seed gives different ones."""
    one, two, other = (_losses(case.trainer(seed, evaluate_every=1)) for seed in (3, 3, 4))
    assert one == two, f"{case.name}: two runs with one seed have different losses; use the given generators only"
    assert one != other, f"{case.name}: runs with different seeds have the same losses"


def _losses(trainer: Trainer) -> list[float]:
    losses: list[float] = []

    def note(record: dict[str, Any]) -> None:
        losses.append(record["loss"])
        if len(losses) == 20:
            raise _Stop

    try:
        trainer.run(on_evaluation=note)
    except _Stop:
        return losses
    raise AssertionError("the run ended before 20 steps")


def _check_scores(case: _Case) -> None:
    """G5: the score table agrees with scoring pair by pair, for 50 pairs."""
    trainer = case.trainer(lr=0.05)
    trainer.run()
    method, rng = trainer.method.eval(), np.random.default_rng(0)
    with torch.no_grad():
        table = method.scores()
        users, items = method.backbone.reps()
        bias = item_bias(method)
        sizes = (table.users, table.items)
        expected = (len(case.log.users), len(case.log.items))
        assert sizes == expected, f"{case.name}: scores() has {sizes} users and items; the log has {expected}"
        for user, item in zip(rng.integers(0, expected[0], 50), rng.integers(0, expected[1], 50), strict=True):
            found = table.block(np.array([user]), int(item), int(item) + 1)[0, 0]
            pair = float(score_user(method, users[user], items[item : item + 1])[0])
            pair += 0.0 if bias is None else float(bias[item])
            assert np.isclose(found, pair, rtol=1e-5, atol=1e-6), (
                f"{case.name}: scores() gives {found} for user {user} and item {item}, "
                f"score_user() and item_bias() {pair}"
            )


def _check_hidden(case: _Case) -> None:
    """G6: lists contain neither items that the user has used nor items that the caller excludes."""
    trainer = case.trainer()
    trainer.run()
    log, banned = case.log, case.log.items[:3]
    try:
        lists = Model(trainer.method, log).recommend(n=len(log.items), exclude=banned)
    except IcpeError as error:
        raise AssertionError(f"{case.name}: no lists after one epoch: {error}") from error
    seen = set(log.to_frame().select("user_id", "item_id").rows())
    wrong = [pair for pair in lists.select("user_id", "item_id").rows() if pair in seen or pair[1] in set(banned)]
    assert not wrong, f"{case.name}: lists contain items that are hidden from their user, such as {wrong[0]}"
    left = sum(1 for user in log.users for item in log.items[3:] if (user, item) not in seen)
    assert len(lists) == left, f"{case.name}: lists contain {len(lists)} items instead of {left}; is a score -inf?"


def _check_state(case: _Case) -> None:
    """G7: another method that loads the state gives the same scores."""
    trainer = case.trainer(lr=0.05)
    trainer.run()
    method, other = trainer.method.eval(), case.built(seed=9).eval()
    other.load_state_dict(method.state_dict())
    with torch.no_grad():
        everybody, size = np.arange(len(case.log.users)), len(case.log.items)
        one, two = (each.scores().block(everybody, 0, size) for each in (method, other))
    assert np.array_equal(one, two), (
        f"{case.name}: a method that has loaded the state_dict of another one gives different scores; store everything "
        "that training changes in parameters or buffers"
    )


def _check_continue(case: _Case) -> None:
    """G7: a run that stops in the second epoch and resumes in another trainer ends with the same bytes."""
    whole, first, second = (case.trainer(epochs=3, evaluate_every=1) for _ in range(3))
    whole.run()
    _run_until(first, whole.steps // 2)
    kept = {name: value.detach().clone() for name, value in first.tensors().items()}
    second.restore(kept, json.loads(json.dumps(first.record())))
    second.run()
    for name, value in whole.method.state_dict().items():
        assert torch.equal(value, second.method.state_dict()[name]), (
            f"{case.name}: after resuming from a saved state, {name} differs from a run without a stop; is there a "
            "schedule or a counter that state_dict() does not contain?"
        )


def _check_owners(case: _Case) -> None:
    """G8: parameters that grow with the log are declared, so that a training can start from an earlier model."""
    one, other = case.built(), case.built(log=skewed_log(users=24, items=17, pairs=180))
    owners = {id(parameter) for parameter in (*one.user_parameters(), *one.item_parameters())}
    shapes = {name: parameter.shape for name, parameter in other.named_parameters()}
    for name, parameter in one.named_parameters():
        assert id(parameter) in owners or parameter.shape == shapes[name], (
            f"{case.name}: the size of {name} depends on the log; if it has a row per user or item, return it from "
            "user_parameters() or item_parameters()"
        )
    unknown = [name for name in one.learned_buffers() if name not in dict(one.named_buffers())]
    assert not unknown, f"{case.name}: learned_buffers() names {unknown}, which are no buffers"
