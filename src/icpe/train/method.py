"""What every training method answers: what to sample, what to minimise, what ranks items."""

import importlib
import inspect
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NoReturn, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from icpe.backbones.base import Backbone
from icpe.data.interactions import Interactions
from icpe.errors import ConfigError, NotFittedError
from icpe.ranking.tables import ScoreTable, with_bias
from icpe.train.drawing import Drawn

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class Negatives:
    """Which items stand against the positives of a batch.

    Attributes:
        count: how many.
        shared: True: ``count`` items for the whole batch, uniform over all; False: ``count`` for each positive.
        seen: whether those for each positive are uniform over all items, and not only over those its user has not used.
    """

    count: int
    shared: bool = False
    seen: bool = False


@dataclass(frozen=True)
class Batch:
    """Codes of one optimisation step.

    Attributes:
        users: int64 [batch].
        items: int64 [batch], a positive of each user.
        negatives: int64 [batch, count], or [count] if shared.
        marks: what the method's own :meth:`Method.draw` says about them, or None.
    """

    users: Tensor
    items: Tensor
    negatives: Tensor
    marks: Tensor | None = None

    @classmethod
    def of(cls, drawn: Drawn, device: torch.device | str = "cpu") -> Self:
        """What was drawn, as tensors."""
        users, items, negatives = (
            torch.from_numpy(codes).to(device) for codes in (drawn.users, drawn.items, drawn.negatives)
        )
        return cls(users, items, negatives, None if drawn.marks is None else torch.from_numpy(drawn.marks).to(device))


class Method(nn.Module, ABC):
    """A way to train a backbone. It knows nothing of loops, files or devices.

    Attributes:
        name: in settings and on the command line.
        label: how people call it; the class's name, unless it says otherwise.
        serving: names of settings that matter for ranking only and may be changed after training.
        presets: settings of the constructor by name, e.g. those of the paper.
        search: values of settings worth trying, the usual ones among them; for tuning.
        backbone: the model that is trained.
        reg: λ of the L2 term on the trainable rows of a batch.
    """

    name: ClassVar[str]
    label: ClassVar[str]
    serving: ClassVar[tuple[str, ...]] = ()
    presets: ClassVar[dict[str, dict[str, Any]]] = {}
    search: ClassVar[dict[str, tuple[Any, ...]]] = {}

    def __init_subclass__(cls, **settings: Any) -> None:
        super().__init_subclass__(**settings)
        cls.label = cls.__dict__.get("label", cls.__name__)

    def __init__(self, backbone: Backbone, reg: float | None = None) -> None:
        super().__init__()
        if not isinstance(backbone, Backbone):
            raise ConfigError(f"backbone is {backbone!r}; expected a backbone such as MF() or LightGCN(layers=3)")
        self.backbone = backbone
        self.reg = backbone.default_reg if reg is None else reg
        check_number("reg", self.reg, least=0.0)

    @property
    @abstractmethod
    def negatives(self) -> Negatives:
        """What to sample against the positives."""

    @abstractmethod
    def loss(self, batch: Batch, rng: torch.Generator | None = None) -> Tensor:
        """What to minimise, one number; ``rng`` is for dropout."""

    def draw(self, drawn: Drawn, epoch: int, rng: "np.random.Generator") -> Drawn:
        """Change what was drawn for a step: other negatives, marks, or other pairs altogether.

        Args:
            drawn: the step's positives, and negatives as of :attr:`negatives`.
            epoch: counted from 0.
            rng: of this step alone, so that a run can be continued anywhere.
        """
        return drawn

    def options(self) -> Sequence[dict[str, Any]]:
        """Settings of ranking to try at a validation, such as ``[{"c": 0.0}, {"c": 10.0}]``; the best is adopted."""
        return []

    def adopt(self, **serving: Any) -> None:
        """Rank by one of the :meth:`options` from now on. What it changes must be a buffer."""

    def renews(self, step: int, epoch_steps: int) -> bool:
        """Whether :meth:`renew` is due before this step, counted from 0."""
        return False

    def renew(self, step: int, seed: int) -> None:
        """Compute anew what lasts for many steps, such as clusters, from the present parameters.

        What it leaves must be a buffer, so that checkpoints hold it.

        Args:
            step: number of the step to come, from 0.
            seed: of the run; take ``icpe.rng.stream(seed, name)`` with a name that holds the step.
        """

    def diagnostics(self) -> dict[str, Any]:
        """What the method would show of its inside at a validation: plain values for ``metrics.jsonl``."""
        return {}

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """Constructor arguments but the backbone, as plain values."""

    @classmethod
    def from_preset(cls, name: str, backbone: Backbone, **settings: Any) -> Self:
        """The method with the settings of a preset, some of them replaced.

        Raises:
            ConfigError: there is no such preset.
        """
        return cls(backbone, **{**cls.preset(name), **settings})

    @classmethod
    def preset(cls, name: str) -> dict[str, Any]:
        """The settings of a preset.

        Raises:
            ConfigError: there is none of that name.
        """
        if name not in cls.presets:
            known = ", ".join(cls.presets) or "none"
            raise ConfigError(f"method {cls.name!r} has no preset {name!r}; it has {known}")
        return dict(cls.presets[name])

    def train_defaults(self) -> dict[str, Any]:
        """Settings of the loop that suit the method, where the user names none."""
        return {}

    def build(self, train: Interactions, rng: "np.random.Generator") -> None:
        """Make all parameters, once the training data are known."""
        self.backbone.build(train, rng)

    def scores(self) -> ScoreTable:
        """The scores that rank items, from the present parameters; call in evaluation mode without gradients."""
        table, bias = self.own_scores(), self.item_bias()
        return table if bias is None else with_bias(table, bias.detach().float().cpu().numpy())

    def own_scores(self) -> ScoreTable:
        """The scores without what :meth:`item_bias` adds."""
        return self.backbone.scores(*self.backbone.reps())

    def item_bias(self) -> Tensor | None:
        """What ranking adds to the scores of each item, whoever the user is, [items]; None for nothing."""
        return None

    def row_tables(self) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
        """Parameters with a row per user, and with a row per item, that :meth:`loss` reads row by row only."""
        return self.backbone.row_tables()

    def score_user(self, user: Tensor, items: Tensor) -> Tensor:
        """Scores of one user's representation [D] for items [n, D], without :meth:`item_bias`: [n]."""
        return self.backbone.score(user, items)

    def user_loss(self, positive: Tensor, negative: Tensor) -> Tensor:
        """What one user's scores of used and of all other items should minimise; for folding in new users."""
        return F.softplus(-positive).mean() + F.softplus(negative).mean()

    def penalty(self, batch: Batch, taken: Sequence[Tensor] = ()) -> Tensor:
        """λ/2 · (mean squared norm of users + of items + of negatives), on the trainable rows.

        Args:
            batch: whose rows.
            taken: the representations of users, items and negatives the loss has taken already; they serve where they
                are the trainable rows themselves.
        """
        if self.reg == 0:
            return torch.zeros((), device=batch.users.device)
        if not taken or not self.backbone.row_tables()[0]:
            taken = (
                self.backbone.ego_users(batch.users),
                self.backbone.ego_items(batch.items),
                self.backbone.ego_items(batch.negatives.reshape(-1)),
            )
        means = [rows.square().sum() / (rows.numel() / rows.shape[-1]) for rows in taken if rows.numel()]
        return 0.5 * self.reg * torch.stack(means).sum()

    def fit(self, train: Interactions, valid: Interactions | None = None, rng: int = 0, **settings: Any) -> Any:
        """Train and return a model that recommends.

        Args:
            train: the training part.
            valid: the validation part, for early stopping; without it all epochs are run.
            rng: seed of everything random.
            settings: of the loop: ``epochs, batch_size, lr, optimizer, patience, evaluate_every, device``.

        Returns:
            :class:`icpe.recommender.Model`.
        """
        # The loop and the model lie further right in the house and are found by name, not imported.
        return importlib.import_module("icpe.recommender").fit(self, train, valid, rng, **settings)

    def recommend(self, *_: Any, **__: Any) -> NoReturn:
        """Not here: a method has nothing to recommend before training."""
        raise NotFittedError(f"{type(self).__name__} is not trained; use what .fit(train) returns")


def make_from_settings(kind: type, settings: dict[str, Any], what: str, *leading: Any) -> Any:
    """``kind(*leading, **settings)``, with an unknown setting refused by name and the nearest known one."""
    known = list(inspect.signature(kind).parameters)[len(leading) :]
    refuse_unknown(settings, known, what)
    return kind(*leading, **settings)


def refuse_unknown(settings: Iterable[str], known: Sequence[str], what: str) -> None:
    """Refuse a setting that is not known, and name the nearest that is."""
    for name in settings:
        if name not in known:
            near = get_close_matches(name, known, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else f"; it has {', '.join(known) or 'none'}"
            raise ConfigError(f"{what} has no setting {name!r}{hint}")


def check_number(name: str, value: Any, least: float, most: float = float("inf"), open_left: bool = False) -> None:
    """Refuse what is not a finite number in the range."""
    fine = isinstance(value, int | float) and not isinstance(value, bool) and value == value
    if not fine or not least <= value <= most or value == float("inf") or (open_left and value == least):
        expected = f"above {least:g}" if open_left else f"of at least {least:g}"
        upper = f" and at most {most:g}" if most != float("inf") else ""
        raise ConfigError(f"{name} is {value!r}; expected a number {expected}{upper}")


def check_count(name: str, value: Any) -> None:
    """Refuse what is not a whole number from 1 up."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ConfigError(f"{name} is {value!r}; expected a whole number from 1 up")


def check_choice(name: str, value: Any, choices: tuple[str, ...]) -> None:
    """Refuse what is not among the choices."""
    if value not in choices:
        raise ConfigError(f"{name} is {value!r}; expected one of {', '.join(choices)}")


Loss = Literal["bce", "bpr", "softmax"]
