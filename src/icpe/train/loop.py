"""The training loop: it samples batches, takes steps, validates and stops.

It knows no particular method and writes no files.
"""

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import torch
from pydantic import TypeAdapter
from torch import Tensor

from icpe.backbones.rows import share_of
from icpe.data.interactions import Interactions
from icpe.errors import IcpeError
from icpe.rng import random_keys, stream
from icpe.shards import current
from icpe.threads import libraries_alone
from icpe.train.abilities import CustomSampling, Diagnostics, OnPlateau, RankingChoice, Refresh
from icpe.train.batch import Batch, SampledBatch
from icpe.train.limits import check_memory
from icpe.train.method import TrainingMethod
from icpe.train.optimizer import Optimizer
from icpe.train.pieces import Piece
from icpe.train.sampling import Sampler
from icpe.train.settings import TrainSettings

_STEPS_PER_BLOCK = 1024  # steps whose dropout seeds are drawn together, because opening a stream is expensive


@dataclass(frozen=True)
class Validation:
    """Outcome of a validation.

    Attributes:
        value: the number that decides when to stop and which parameters to keep. Larger is better.
        metrics: metrics by name.
        beta: setting of the dial that was chosen, or None if the dial is fixed.
        niche_share: share of the places that niche items get.
    """

    value: float
    metrics: dict[str, float]
    beta: float | None
    niche_share: float


class Validate(Protocol):
    """A function that evaluates a method in evaluation mode and chooses the setting of its dial."""

    def __call__(self, method: TrainingMethod, last_share: float | None = None) -> Validation:
        """Return the outcome. ``last_share`` is the niche share of the last one, or None at the first."""


@dataclass
class Position:
    """Progress of a run. Together with the saved tensors it is everything needed to resume.

    Attributes:
        step: steps taken.
        best: best validation metric so far.
        best_step: the step at which it was measured.
        best_beta: setting of the dial that was chosen there, or None if the dial is fixed.
        niche_share: niche share at the last validation.
        stale: validations since then.
        loss_sum: sum of the losses since the last validation.
        loss_steps: number of those losses.
        done: whether training has ended.
    """

    step: int = 0
    best: float = -math.inf
    best_step: int = 0
    best_beta: float | None = None
    niche_share: float | None = None
    stale: int = 0
    loss_sum: float = 0.0
    loss_steps: int = 0
    done: bool = False

    @property
    def validated(self) -> bool:
        """Whether a validation has taken place."""
        return not math.isinf(self.best)


class Trainer:
    """Trains a method on training data.

    Args:
        method: a method that has not been built yet.
        train: the training part.
        seed: seed of everything random.
        settings: settings of the loop.
        validate: function that evaluates the method. Without it, training runs all epochs.

    Attributes:
        method: the method that is trained.
        settings: settings of the loop.
        device: device that the method is trained on.
        steps: number of steps in all epochs.
        evaluate_every: number of steps between validations.
        position: progress of the run.
        validate_first: whether to validate before the first step too, because the start values come from training.
    """

    def __init__(
        self,
        method: TrainingMethod,
        train: Interactions,
        seed: int,
        settings: TrainSettings,
        validate: Validate | None = None,
    ) -> None:
        self.device = settings.torch_device()
        self.method, self.settings, self._seed, self._validate = method, settings, seed, validate
        check_memory(method, train, settings, validates=validate is not None)
        method.build(train, stream(seed, "train/start"))
        method.to(self.device)
        resample = method.sample if isinstance(method, CustomSampling) else None
        self._sampler = Sampler(train, method.negatives, settings.batch_size, seed, resample)
        self.steps = settings.epochs * self._sampler.steps
        self.evaluate_every = settings.evaluate_every or min(3000, max(250, self._sampler.steps))
        name = settings.optimizer or method.backbone.default_optimizer
        self._optimizer = Optimizer(name, method, settings.lr, self.device)
        self.position = Position()
        self.validate_first = False
        self._best: dict[str, Tensor] = {}
        self._dropout, self._dropout_block = torch.Generator(self.device), -1

    def run(
        self,
        on_step: Callable[[Position], None] | None = None,
        on_evaluation: Callable[[dict[str, Any]], None] | None = None,
    ) -> None:
        """Train to the end, starting from the current position, and leave the best parameters in the method.

        Args:
            on_step: function that is called after each step, for example to show progress.
            on_evaluation: function that is called with the record of each validation.

        Raises:
            IcpeError: the loss is not finite.
        """
        if not (self.position.done or any(one.requires_grad for one in self.method.parameters())):
            self._validate_and_decide(on_evaluation, last=True)  # nothing to train: validate once
        elif self.validate_first and self._validate is not None and not self.position.validated:
            self._validate_and_decide(on_evaluation, last=False)
        with libraries_alone():
            while not self.position.done:
                self._run_epoch(on_step, on_evaluation)
        if self._best:
            self.method.load_state_dict(self._best)
        if self.position.best_beta is not None:
            self.method.settings = self.method.settings.replace(beta=self.position.best_beta)
        self.method.eval()

    def _run_epoch(
        self,
        on_step: Callable[[Position], None] | None,
        on_evaluation: Callable[[dict[str, Any]], None] | None,
    ) -> None:
        """Run the rest of the current epoch, or until training is done."""
        epoch, first = divmod(self.position.step, self._sampler.steps)
        for sampled in self._sampler.epoch(epoch, first):
            self._step(sampled)
            last = self.position.step == self.steps
            if self.position.step % self.evaluate_every == 0 or last:
                self._validate_and_decide(on_evaluation, last)
            if on_step is not None:
                on_step(self.position)
            if self.position.done:
                break

    def _validate_and_decide(self, on_evaluation: Callable[[dict[str, Any]], None] | None, last: bool) -> None:
        """Validate, and decide whether training is done."""
        record = self._evaluate()
        self.position.done = last or self.position.stale >= self.settings.patience
        if on_evaluation is not None:
            on_evaluation(record)

    def tensors(self) -> dict[str, Tensor]:
        """Return the current parameters, the best parameters and the state of the optimiser, by name."""
        state = {f"now.{name}": value for name, value in self.method.state_dict().items()}
        best = {f"best.{name}": value for name, value in self._best.items()}
        return {**state, **best, **{f"opt.{name}": value for name, value in self._optimizer.tensors().items()}}

    def pieces(self) -> dict[str, Piece]:
        """Return which part of each of :meth:`tensors` this process holds; of all others it holds the whole."""
        shares = {name: share_of(parameter) for name, parameter in self.method.named_parameters()}
        tables = {name: Piece.of(share) for name, share in shares.items() if share is not None}
        state = {f"{kind}.{name}": piece for kind in ("now", "best") for name, piece in tables.items()}
        return {**state, **{f"opt.{name}": piece for name, piece in self._optimizer.pieces().items()}}

    def record(self) -> dict[str, Any]:
        """Return the position as plain values. None stands for infinity, which JSON does not have."""
        values = asdict(self.position)
        return {**values, "best": None if math.isinf(values["best"]) else values["best"]}

    def restore(self, tensors: dict[str, Tensor], record: dict[str, Any]) -> None:
        """Restore the state that :meth:`tensors` and :meth:`record` returned.

        Raises:
            ValueError: the record or the tensors are not those of a position and a method like this one.
        """
        best = -math.inf if record["best"] is None else record["best"]
        position = TypeAdapter(Position).validate_python({**record, "best": best})
        parts: dict[str, dict[str, Tensor]] = {"now": {}, "best": {}, "opt": {}}
        for name, value in tensors.items():
            kind, rest = name.split(".", 1)
            parts[kind][rest] = value.to(self.device)
        self.method.load_state_dict(parts["now"])
        self._best = parts["best"]
        self._optimizer.restore(parts["opt"])
        self.position = position

    def _step(self, sampled: SampledBatch) -> None:
        if not self.method.training:
            self.method.train()
        batch = Batch.of(sampled, self.device)
        method, step = self.method, self.position.step
        if isinstance(method, Refresh) and method.refresh_due(step, self._sampler.steps):
            self._optimizer.settle()
            method.refresh(step, self._seed)
            self._agree()
        with self._optimizer.reading_rows():
            loss = self.method.loss(batch, self._dropout_stream())
            value = float(loss.detach())
            if not math.isfinite(value):
                raise IcpeError(
                    f"the loss is {value} at step {self.position.step + 1} with lr={self.settings.lr:g}. "
                    f"Try a smaller learning rate, such as --train.lr {self.settings.lr / 10:g}"
                )
            loss.backward()  # type: ignore[no-untyped-call]
        self._optimizer.step()
        self.position.step += 1
        self.position.loss_sum += value
        self.position.loss_steps += 1

    def _agree(self) -> None:
        """Let all processes have the same values of what they do not share."""
        group = current()
        if group is not None:
            tensors = (*self.method.parameters(), *self.method.buffers())
            group.same(tensor for tensor in tensors if share_of(tensor) is None)

    def _dropout_stream(self) -> torch.Generator:
        # Each step has its own seed, derived from the seed of the run, so a resumed run needs no saved generator.
        block, place = divmod(self.position.step, _STEPS_PER_BLOCK)
        if block != self._dropout_block:
            self._dropout_keys = random_keys(self._seed, f"train/dropout/{block}", _STEPS_PER_BLOCK)
            self._dropout_block = block
        return self._dropout.manual_seed(int(self._dropout_keys[place]) >> 1)

    def _evaluate(self) -> dict[str, Any]:
        position = self.position
        self._optimizer.settle()
        self._agree()
        record: dict[str, Any] = {
            "step": position.step,
            "epoch": position.step / self._sampler.steps,
            "loss": position.loss_sum / position.loss_steps if position.loss_steps else None,
        }
        position.loss_sum, position.loss_steps = 0.0, 0
        if self._validate is None:
            return self._with_diagnostics(record)
        self.method.eval()
        with torch.no_grad():
            found = self._validation()
        record["valid"] = found.metrics
        if found.beta is not None:
            record["beta"] = found.beta
        position.niche_share = found.niche_share
        if found.value > position.best:
            position.best, position.best_step, position.stale = found.value, position.step, 0
            position.best_beta = found.beta
            self._best = {name: tensor.clone() for name, tensor in self.method.state_dict().items()}
        else:
            position.stale += 1
            if isinstance(self.method, OnPlateau):
                self.method.on_plateau()
        return self._with_diagnostics(record)

    def _with_diagnostics(self, record: dict[str, Any]) -> dict[str, Any]:
        """Return the record together with the diagnostics of the method."""
        shown = self.method.diagnostics() if isinstance(self.method, Diagnostics) else {}
        return {**record, self.method.name: shown} if shown else record

    def _validation(self) -> Validation:
        """Return the outcome for the current parameters, with the best ranking setting if the method offers several."""
        assert self._validate is not None
        method, last = self.method, self.position.niche_share
        options = method.ranking_options() if isinstance(method, RankingChoice) else []
        if not isinstance(method, RankingChoice) or not options:
            return self._validate(method, last)
        tried = []
        for option in options:
            method.choose_ranking(**option)
            tried.append((self._validate(method, last), option))
        found, best = max(tried, key=lambda one: one[0].value)  # the first one in a tie
        method.choose_ranking(**best)
        return found
