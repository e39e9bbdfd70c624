"""Rankings that learn nothing: what every method has to beat."""

from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from icpe.backbones.base import Backbone, DotBackbone
from icpe.data.interactions import Interactions
from icpe.train.method import Batch, Method, Negatives
from icpe.types import FloatArray

_DIM = 64  # of random vectors: enough that the lists of two users have little to do with each other


class _Floor(Method):
    """A method without parameters: fixed vectors of users and items, whose inner product ranks.

    The backbone is never used; the method takes one since all do.
    """

    def __init__(self, backbone: Backbone) -> None:
        super().__init__(backbone, reg=0.0)
        self.backbone: FixedVectors = FixedVectors(backbone)

    def settings(self) -> dict[str, Any]:
        """There are none."""
        return {}

    def train_defaults(self) -> dict[str, Any]:
        """Once is enough."""
        return {"epochs": 1}

    @property
    def negatives(self) -> Negatives:
        """None are drawn."""
        return Negatives(0, shared=True)

    def build(self, train: Interactions, rng: np.random.Generator) -> None:
        """The fixed vectors."""
        self.backbone.hold(*self._vectors(train, rng))

    @abstractmethod
    def _vectors(self, train: Interactions, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        """Vectors of users and of items, float32 [users, dim] and [items, dim]."""

    def loss(self, batch: Batch, rng: torch.Generator | None = None) -> Tensor:
        """There is nothing to minimise: 0."""
        return torch.zeros((), device=batch.users.device, requires_grad=True)

    def user_loss(self, positive: Tensor, negative: Tensor) -> Tensor:
        """There is nothing to learn from a history: 0."""
        return 0 * positive.sum()


class Popularity(_Floor):
    """The same list for everybody: items by their number of training pairs.

    Args:
        backbone: not used.

    Example:
        >>> from icpe.backbones import MF
        >>> from icpe.testing.logs import skewed_log
        >>> log = skewed_log(users=5, items=4, pairs=12)
        >>> model = Popularity(MF()).fit(log)
        >>> bool((model.scores.block(np.array([2]), 0, 4)[0] == log.item_counts).all())
        True
    """

    name: ClassVar[str] = "popularity"

    def _vectors(self, train: Interactions, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        return np.ones((len(train.users), 1), np.float32), train.item_counts.astype(np.float32)[:, None]


class Random(_Floor):
    """A random order of items for each user, drawn once from the seed of the run.

    Scores are inner products of random vectors, so that every order of the items is as likely for a user as any other.
    Items are of equal length, for long ones would be at the head of many lists, and others at the head of few.

    Args:
        backbone: not used.

    Example:
        >>> from icpe.backbones import MF
        >>> Random(MF()).settings()
        {}
    """

    name: ClassVar[str] = "random"

    def _vectors(self, train: Interactions, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        users, items = (rng.standard_normal((len(ids), _DIM), dtype=np.float32) for ids in (train.users, train.items))
        return users, items / np.linalg.norm(items, axis=1, keepdims=True)


class FixedVectors(DotBackbone):
    """Vectors that no training changes, in place of a backbone.

    To the outside it answers for the backbone it replaces, by name and settings, so that a saved model can be made
    anew.
    """

    name: ClassVar[str] = "fixed"
    user_table: Tensor  # type: ignore[assignment]
    item_table: Tensor  # type: ignore[assignment]

    def __init__(self, backbone: Backbone) -> None:
        super().__init__(dim=1, init_std=0.0)
        self._replaced = (backbone,)  # in a tuple, for it is no part
        self.name = backbone.name  # type: ignore[misc]

    @property
    def label(self) -> str:
        """That of the backbone."""
        return self._replaced[0].label

    def settings(self) -> dict[str, Any]:
        """Those of the backbone."""
        return self._replaced[0].settings()

    def hold(self, users: FloatArray, items: FloatArray) -> None:
        """Keep these vectors."""
        self.users, self.items = len(users), len(items)
        self.register_buffer("user_table", torch.from_numpy(users))
        self.register_buffer("item_table", torch.from_numpy(items))

    def reps(self, rng: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        """The vectors."""
        self._require_built()
        return self.user_table, self.item_table

    def item_parameters(self) -> list[nn.Parameter]:
        """None."""
        return []
