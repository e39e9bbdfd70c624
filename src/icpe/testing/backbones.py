"""The checks that every backbone must pass, those of the package and your own."""

import json
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import polars as pl
import torch
from torch import Tensor, nn

from icpe.backbones.base import Backbone, normal_table
from icpe.data.interactions import Interactions
from icpe.rng import stream


class Distance(Backbone):
    """An example of a user-defined backbone that scores a pair by the negative squared distance.

    Its score is not an inner product, it has no row tables, and its representations are its tables.
    """

    name: ClassVar[str] = "distance"

    def __init__(self, dim: int = 3) -> None:
        super().__init__()
        self.dim = dim

    def build(self, train: Interactions, rng: np.random.Generator) -> None:
        """Draw both tables."""
        self.users, self.items = len(train.users), len(train.items)
        self.of_users = normal_table(self.users, self.dim, 0.5, rng)
        self.of_items = normal_table(self.items, self.dim, 0.5, rng)

    def reps(self, rng: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        """Return both tables."""
        return self.of_users, self.of_items

    def interact(self, z_user: Tensor, z_item: Tensor) -> Tensor:
        """Return the squared differences."""
        return (z_user - z_item).square()

    def out(self, phi: Tensor) -> Tensor:
        """Return the negative sum over the last dimension."""
        return -phi.sum(-1)

    def ego_users(self, users: Tensor) -> Tensor:
        """Return rows of the user table."""
        return self.of_users[users]

    def ego_items(self, items: Tensor) -> Tensor:
        """Return rows of the item table."""
        return self.of_items[items]

    def user_parameters(self) -> list[nn.Parameter]:
        """Return the user table."""
        return [self.of_users]

    def item_parameters(self) -> list[nn.Parameter]:
        """Return the item table."""
        return [self.of_items]


def check_backbone(make: Callable[[], Backbone], rebuild: bool = True) -> None:
    """Run all checks on new backbones; an AssertionError says which part of the contract is broken.

    Args:
        make: function that makes a new, unbuilt backbone, always with the same settings.
        rebuild: whether to check that the settings are enough to make an equal backbone.

    Example:
        >>> from icpe.backbones import MF
        >>> check_backbone(lambda: MF(dim=4))
    """
    if rebuild:
        _check_settings(make)
    for check in (
        _check_sizes,
        _check_interact,
        _check_gradients,
        _check_ego_rows,
        _check_partition,
        _check_deterministic_build,
        _check_deterministic_dropout,
        _check_inner_product,
        _check_scores,
        _check_state,
    ):
        check(make)


def toy_log() -> Interactions:
    """Return a log of 7 users and 5 items. The last user and the last item have no pairs, as in some training parts."""
    user = np.array([0, 0, 1, 1, 1, 2, 3, 3, 4, 5, 5], np.int32)
    item = np.array([0, 1, 0, 2, 3, 1, 0, 3, 2, 0, 1], np.int32)
    return Interactions.from_codes(pl.Series(range(7)), pl.Series(range(5)), user, item)


def _built(make: Callable[[], Backbone], seed: int = 0) -> Backbone:
    backbone = make()
    state = torch.random.get_rng_state()
    backbone.build(toy_log(), stream(seed, "start"))
    drawn = not torch.equal(state, torch.random.get_rng_state())
    assert not drawn, (
        "build() draws from the global generator of torch; draw from rng only, so that the seed fixes the start values"
    )
    return backbone


def _generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def _check_settings(make: Callable[[], Backbone]) -> None:
    backbone = make()
    assert isinstance(backbone, Backbone), f"{type(backbone).__name__} is not a subclass of icpe.backbones.Backbone"
    assert isinstance(getattr(backbone, "name", None), str), "the class has no name; set name: ClassVar[str]"
    optimizer = backbone.default_optimizer
    assert optimizer in ("adam", "rmsprop"), f"default_optimizer is {optimizer!r}; expected 'adam' or 'rmsprop'"
    assert backbone.default_reg >= 0, f"default_reg is {backbone.default_reg}; expected a number from 0 up"
    settings = backbone.settings.as_dict()
    assert json.loads(json.dumps(settings)) == settings, f"the settings are not plain JSON values: {settings}"
    again = type(backbone)(**settings).settings.as_dict()
    assert again == settings, f"a backbone rebuilt from its settings has other settings: {again} instead of {settings}"
    assert not list(backbone.parameters()), "the constructor creates parameters; create them in build()"


def _check_sizes(make: Callable[[], Backbone]) -> None:
    backbone = _built(make)
    assert (backbone.users, backbone.items) == (7, 5), (
        f"after build() users, items are {backbone.users}, {backbone.items}; the log has 7 and 5"
    )
    z_user, z_item = backbone.reps(_generator())
    assert z_user.ndim == z_item.ndim == 2, "reps() should return two matrices"
    assert len(z_user) == 7, f"reps() returns {len(z_user)} rows of users; the log has 7"
    assert len(z_item) == 5, f"reps() returns {len(z_item)} rows of items; the log has 5"


def _check_interact(make: Callable[[], Backbone]) -> None:
    backbone = _built(make)
    z_user, z_item = (z.detach() for z in backbone.reps(_generator()))
    pairs = backbone.interact(z_user[:5], z_item)
    assert pairs.shape[:-1] == (5,), f"interact() of 5 pairs has the shape {tuple(pairs.shape)}; expected [5, ·]"
    logits = backbone.out(pairs)
    assert logits.shape == (5,), f"out() of 5 pairs has the shape {tuple(logits.shape)}; expected [5]"
    _assert_equal(backbone.score(z_user[0], z_item[0]), logits[0], "score() of single vectors")
    every = _broadcast(backbone, z_user[:, None], z_item[None], (7, 5))
    _assert_equal(every[:5].diagonal(), logits, "score() of all users × all items")
    few = _broadcast(backbone, z_user[:3, None], z_item[torch.tensor([[0, 1], [2, 3], [4, 0]])], (3, 2))
    _assert_equal(few[1, 1], every[1, 3], "score() of [3, 1, D] × [3, 2, D]")


def _broadcast(backbone: Backbone, z_user: Tensor, z_item: Tensor, shape: tuple[int, ...]) -> Tensor:
    shapes = f"{list(z_user.shape)} × {list(z_item.shape)}"
    try:
        scores = backbone.score(z_user, z_item)
    except (RuntimeError, IndexError, ValueError) as error:
        raise AssertionError(f"interact() must broadcast; score() of {shapes} fails: {error}") from error
    found = tuple(scores.shape)
    assert found == shape, f"interact() must broadcast; score() of {shapes} has the shape {found}, not {shape}"
    return scores


def _check_gradients(make: Callable[[], Backbone]) -> None:
    backbone = _built(make)
    z_user, z_item = backbone.reps(_generator())
    logits = backbone.score(z_user[:, None], z_item[None])
    assert logits.isfinite().all(), "score() is not finite with the start values"
    torch.autograd.backward(torch.nn.functional.softplus(logits).sum())
    for name, parameter in backbone.named_parameters():
        assert parameter.grad is not None, f"parameter {name} gets no gradient from the scores of all pairs"
        assert parameter.grad.isfinite().all(), f"the gradient of parameter {name} is not finite"


def _check_ego_rows(make: Callable[[], Backbone]) -> None:
    backbone = _built(make)
    for side, ego, size in (("users", backbone.ego_users, 7), ("items", backbone.ego_items, 5)):
        rows = ego(torch.tensor([1, 0, 1]))
        assert rows.ndim == 2, f"ego_{side}() of 3 {side} has the shape {tuple(rows.shape)}; expected [3, ·]"
        assert len(rows) == 3, f"ego_{side}() of 3 {side} has {len(rows)} rows"
        assert rows.requires_grad, f"ego_{side}() returns rows without gradients, so the L2 term would have no effect"
        _assert_equal(rows, ego(torch.arange(size))[[1, 0, 1]], f"ego_{side}() of some {side}")


def _check_partition(make: Callable[[], Backbone]) -> None:
    backbone = _built(make)
    names = {id(parameter): name for name, parameter in backbone.named_parameters()}
    shared = [names.get(id(parameter)) for parameter in backbone.shared_parameters()]
    items = [names.get(id(parameter)) for parameter in backbone.item_parameters()]
    assert None not in shared + items, (
        "shared_parameters() or item_parameters() returns a parameter that is not in parameters()"
    )
    found = sorted(name for name in shared + items if name)
    assert found == sorted(names.values()), (
        f"shared ({shared}) and item parameters ({items}) should contain each parameter once: {sorted(names.values())}"
    )
    for side, tables, size in zip(("users", "items"), backbone.row_tables(), (7, 5), strict=True):
        for table in tables:
            assert id(table) in names, f"row_tables() returns a table of {side} that is not in parameters()"
            assert len(table) == size, f"row_tables() returns {len(table)} rows for {size} {side}"
    for side, owned, size in (("user", backbone.user_parameters(), 7), ("item", backbone.item_parameters(), 5)):
        for parameter in owned:
            name = names.get(id(parameter))
            assert name, f"{side}_parameters() returns a parameter that is not in parameters()"
            assert len(parameter) == size, (
                f"{side}_parameters() returns {name} with {len(parameter)} rows for {size} {side}s; a training that "
                "starts from an earlier model carries rows over by id"
            )
    assert shared, "shared_parameters() is empty; the parameters of users belong there"
    assert items, "item_parameters() is empty; the parameters of items belong there"


def _check_deterministic_build(make: Callable[[], Backbone]) -> None:
    one, two, other = _built(make), _built(make), _built(make, seed=1)
    for name, value in one.state_dict().items():
        assert torch.equal(value, two.state_dict()[name]), f"two builds from the same rng differ in {name}"
    drawn = [name for name, value in one.state_dict().items() if not torch.equal(value, other.state_dict()[name])]
    assert drawn, "builds from different seeds are equal; draw the start values from rng"


def _check_deterministic_dropout(make: Callable[[], Backbone]) -> None:
    backbone = _built(make)
    for mode in (True, False):
        backbone.train(mode)
        for one, two in zip(backbone.reps(_generator()), backbone.reps(_generator()), strict=True):
            assert torch.equal(one, two), f"reps() with equal generators differs (training={mode})"
    for one, two in zip(backbone.reps(), backbone.reps(), strict=True):
        assert torch.equal(one, two), "reps() differs between calls in evaluation mode; is dropout still active?"


def _check_inner_product(make: Callable[[], Backbone]) -> None:
    backbone = _built(make).eval()
    z_user, z_item = backbone.reps()
    if backbone.inner_product:
        expected = backbone.score(z_user[:, None], z_item[None])
        _assert_equal(z_user @ z_item.T, expected, "with inner_product = True, the product of representations")


def _check_scores(make: Callable[[], Backbone]) -> None:
    backbone = _built(make).eval()
    z_user, z_item = backbone.reps()
    expected = backbone.score(z_user[:, None], z_item[None])
    table = backbone.scores(z_user, z_item)
    assert (table.users, table.items) == (7, 5), f"scores() is a table of {table.users} × {table.items}, not 7 × 5"
    for users, start, stop in (([0, 1, 2, 3, 4, 5, 6], 0, 5), ([5, 1, 5], 2, 4), ([3], 4, 5), ([], 0, 5), ([2], 3, 3)):
        block = table.block(np.array(users, np.int64), start, stop)
        place = f"scores().block({users}, {start}, {stop})"
        assert isinstance(block, np.ndarray), f"{place} is a {type(block).__name__}; expected a numpy array"
        assert block.dtype == np.float32, f"{place} is {block.dtype}; expected float32"
        assert block.shape == (len(users), stop - start), f"{place} has the shape {block.shape}"
        _assert_equal(torch.from_numpy(block), expected[users, start:stop], place)


def _check_state(make: Callable[[], Backbone]) -> None:
    backbone, other = _built(make).eval(), _built(make, seed=1).eval()
    other.load_state_dict(backbone.state_dict())
    for one, two in zip(_all_scores(backbone), _all_scores(other), strict=True):
        assert torch.equal(one, two), "a backbone that has loaded the state_dict of another one gives different scores"


def _all_scores(backbone: Backbone) -> Tensor:
    z_user, z_item = backbone.reps()
    return backbone.score(z_user[:, None], z_item[None])


def _assert_equal(found: Tensor, expected: Tensor, what: str) -> None:
    def message(detail: str) -> str:
        return f"{what} should equal the scores of single pairs. {detail}"

    tolerance: dict[str, Any] = {"rtol": 1e-4, "atol": 1e-6, "check_dtype": False}
    torch.testing.assert_close(found.detach(), expected.detach(), msg=message, **tolerance)
