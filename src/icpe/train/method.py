"""The contract between the training loop and a training method.

A method says what to sample, what to minimise and which score ranks items. Four definitions are enough: :attr:`name`,
:attr:`negatives`, :meth:`loss` and, if items are not ranked by the score of the backbone, :meth:`scores`. Further
abilities are the small mixins of :mod:`icpe.train.abilities`, which most methods do not need.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar, Self

import torch
from torch import Tensor, nn

from icpe.backbones.base import Backbone
from icpe.backbones.rows import RowParameter
from icpe.data.interactions import Interactions
from icpe.errors import ConfigError
from icpe.ranking.tables import ScoreTable
from icpe.settings import Settings, constructor_signature, setting
from icpe.train.batch import Batch, Negatives

if TYPE_CHECKING:
    import numpy as np


class MethodSettings(Settings):
    """Settings that every method has."""

    reg: float | None = setting(
        None, "Weight λ of the L2 term on the trainable rows of a batch. Default: that of the backbone.", least=0.0
    )

    beta: float | None = setting(
        None,
        "The dial: ranking adds beta times log popularity to the scores; below 0 it favours niche items. Default: "
        "chosen on the validation part, or 0 without one.",
        least=-1e6,
        most=1e6,
        ranking=True,
    )

    boost: float | None = setting(
        None,
        "The boost: what ranking adds to the scores of all niche items alike, in the unit of the training score. "
        "Default: none. `icpe dial --boost` finds it for a wish.",
        least=0.0,
        most=1e6,
        ranking=True,
    )

    def completed(self, backbone: Backbone) -> Self:
        """Return the settings with the values filled in that depend on the backbone."""
        return self if self.reg is not None else self.replace(reg=backbone.default_reg)


class TrainingMethod(nn.Module, ABC):
    """A way to train a backbone. It knows nothing about loops, files or devices.

    Attributes:
        name: name in configuration files and on the command line.
        label: name in tables and figures. The default is the name of the class.
        Settings: declaration of the settings.
        presets: named collections of settings, such as those of the paper.
        shareable: whether several processes can train it together, each with a share of the rows of all tables. Its
            loss then reads rows with ``backbone.rows`` and ``take_rows`` only. A subclass does not inherit it.
        settings: the values in effect.
        backbone: the model to train.
    """

    name: ClassVar[str]
    label: ClassVar[str]
    shareable: ClassVar[bool] = False
    Settings: ClassVar[type[MethodSettings]] = MethodSettings
    presets: ClassVar[dict[str, dict[str, Any]]] = {}
    settings: MethodSettings

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        cls.label = cls.__dict__.get("label", cls.__name__)
        cls.__signature__ = constructor_signature(cls.Settings, "backbone")  # type: ignore[attr-defined]

    def __init__(self, backbone: Backbone, **settings: Any) -> None:
        super().__init__()
        if not isinstance(backbone, Backbone):
            raise ConfigError(f"backbone is {backbone!r}; expected a backbone such as MF() or LightGCN(layers=3)")
        owner = f"method {getattr(self, 'name', type(self).__name__)!r}"
        self.settings = self.Settings.parse(settings, owner).completed(backbone)
        self.backbone = backbone

    @property
    @abstractmethod
    def negatives(self) -> Negatives:
        """The negatives to sample for the positives of a batch."""

    @abstractmethod
    def loss(self, batch: Batch, rng: torch.Generator | None = None) -> Tensor:
        """Return the loss of a batch, a scalar. Dropout draws from ``rng``."""

    def scores(self) -> ScoreTable:
        """Return the scores that rank items. Call it in evaluation mode without gradients."""
        return self.backbone.scores(*self.backbone.reps())

    def build(self, train: Interactions, rng: "np.random.Generator") -> None:
        """Create all parameters for the training data. All random numbers are drawn from ``rng``."""
        self.backbone.build(train, rng)

    def train_defaults(self) -> dict[str, Any]:
        """Return settings of the training loop that suit this method. Settings of the user override them."""
        return {}

    def row_tables(self) -> tuple[list[RowParameter], list[RowParameter]]:
        """Return the tables with a row per user and per item that the loss reads with ``take_rows`` only."""
        return self.backbone.row_tables()

    def user_parameters(self) -> list[nn.Parameter]:
        """Return the parameters with a row for each user, which a warm start carries over by user id."""
        return self.backbone.user_parameters()

    def item_parameters(self) -> list[nn.Parameter]:
        """Return the parameters with a row for each item, which a warm start carries over by item id."""
        return self.backbone.item_parameters()

    def learned_buffers(self) -> list[str]:
        """Return the names of buffers that training changes and that a warm start carries over as a whole.

        All other buffers follow from the training data, and :meth:`build` has computed them.
        """
        return []

    @property
    def score_unit(self) -> float:
        """The ranking score that corresponds to 1 in the unit of the training score."""
        return 1.0

    @property
    def reg(self) -> float:
        """Weight λ of the L2 term."""
        return self.settings.reg or 0.0

    def penalty(self, batch: Batch, taken: Sequence[Tensor] = ()) -> Tensor:
        """Return λ/2 · (mean squared norm of users + of positives + of negatives), on the trainable rows.

        Args:
            batch: codes of the batch.
            taken: representations of users, positives and negatives that the loss has already read. They are reused if
                they are the trainable rows themselves.
        """
        if self.reg == 0:
            return torch.zeros((), device=batch.users.device)
        if not taken or not self.backbone.trains_rows:
            taken = (
                self.backbone.ego_users(batch.users),
                self.backbone.ego_items(batch.items),
                self.backbone.ego_items(batch.negatives.reshape(-1)),
            )
        means = [rows.square().sum() / (rows.numel() / rows.shape[-1]) for rows in taken if rows.numel()]
        return 0.5 * self.reg * torch.stack(means).sum()


@contextmanager
def evaluation_mode(module: nn.Module) -> Iterator[None]:
    """Switch dropout off for as long as the context lasts."""
    training = module.training
    module.eval()
    try:
        yield
    finally:
        module.train(training)
