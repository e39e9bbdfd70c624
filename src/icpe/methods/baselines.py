"""Rankings that learn nothing, which every method should beat."""

from abc import abstractmethod
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor, nn

from icpe.backbones.base import Backbone, DotBackbone
from icpe.data.interactions import Interactions
from icpe.methods.base import Method
from icpe.train.abilities import FoldIn
from icpe.train.batch import Batch, Negatives
from icpe.train.method import MethodSettings
from icpe.types import FloatArray

_DIM = 64  # length of the random vectors, large enough that the lists of two users are nearly independent


class BaselineSettings(MethodSettings):
    """A baseline has no settings but the dial."""

    reg: ClassVar[float] = 0.0  # type: ignore[misc]  # nothing is trained

    def completed(self, backbone: Backbone) -> Self:
        """Return the settings as they are."""
        return self


class Baseline(FoldIn, Method):
    """A method without parameters: items are ranked by the inner product of fixed vectors of users and items.

    The backbone is not used; the constructor takes one only because all methods do.
    """

    Settings = BaselineSettings
    settings: BaselineSettings
    backbone: "FixedVectors"

    def __init__(self, backbone: Backbone, **settings: Any) -> None:
        super().__init__(backbone, **settings)
        self.backbone = FixedVectors(backbone)

    def train_defaults(self) -> dict[str, Any]:
        """Return one epoch, because there is nothing to train, and leave the dial at rest.

        The dial adds popularity, so choosing its setting would turn a random ranking into one by popularity.
        """
        return {"epochs": 1, "goal": "none"}

    @property
    def negatives(self) -> Negatives:
        """None are sampled."""
        return Negatives(0, shared=True)

    def build(self, train: Interactions, rng: np.random.Generator) -> None:
        """Create the fixed vectors."""
        self.backbone.set_vectors(*self.fixed_vectors(train, rng))

    @abstractmethod
    def fixed_vectors(self, train: Interactions, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        """Return the vectors of users and of items, float32 [users, dim] and [items, dim]."""

    def loss(self, batch: Batch, rng: torch.Generator | None = None) -> Tensor:
        """Return 0, because there is nothing to minimise."""
        return torch.zeros((), device=batch.users.device, requires_grad=True)

    def score_user(self, user: Tensor, items: Tensor) -> Tensor:
        """Return the inner products with the vector of one user."""
        return self.backbone.score(user, items)

    def user_loss(self, positive: Tensor, negative: Tensor) -> Tensor:
        """Return 0, because the history of a new user changes nothing."""
        return 0 * positive.sum()


class Popularity(Baseline):
    """The same list for all users: items ranked by their number of training pairs.

    Example:
        >>> from icpe.backbones import MF
        >>> from icpe.testing.logs import skewed_log
        >>> log = skewed_log(users=5, items=4, pairs=12)
        >>> model = Popularity(MF()).fit(log)
        >>> bool((model.scores.block(np.array([2]), 0, 4)[0] == log.item_counts).all())
        True
    """

    name: ClassVar[str] = "popularity"

    def fixed_vectors(self, train: Interactions, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        """Return 1 for each user and the training count of each item."""
        return np.ones((len(train.users), 1), np.float32), train.item_counts.astype(np.float32)[:, None]


class Random(Baseline):
    """A random order of items for each user, drawn once from the seed of the run.

    Scores are inner products of random vectors, so that every order of the items is equally likely for a user. All item
    vectors have the same norm; otherwise items with a large norm would lead many lists and others few.

    Example:
        >>> from icpe.backbones import MF
        >>> Random(MF()).settings.as_dict()
        {'beta': None, 'boost': None}
    """

    name: ClassVar[str] = "random"

    def fixed_vectors(self, train: Interactions, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        """Return Gaussian vectors of users, and Gaussian vectors of items scaled to norm 1."""
        users, items = (rng.standard_normal((len(ids), _DIM), dtype=np.float32) for ids in (train.users, train.items))
        return users, items / np.linalg.norm(items, axis=1, keepdims=True)


class FixedVectors(DotBackbone):
    """A backbone whose vectors training does not change.

    It reports the name and the settings of the backbone that it replaces, so that a saved model can be rebuilt.
    """

    name: ClassVar[str] = "fixed"
    user_table: Tensor  # type: ignore[assignment]
    item_table: Tensor  # type: ignore[assignment]

    def __init__(self, backbone: Backbone) -> None:
        super().__init__()
        self.name = backbone.name  # type: ignore[misc]
        self.settings = backbone.settings  # type: ignore[assignment]
        self._label = backbone.label

    @property
    def label(self) -> str:
        """The label of the backbone that it replaces."""
        return self._label

    def set_vectors(self, users: FloatArray, items: FloatArray) -> None:
        """Use these vectors, float32 [users, dim] and [items, dim]."""
        self.users, self.items = len(users), len(items)
        self.register_buffer("user_table", torch.from_numpy(users))
        self.register_buffer("item_table", torch.from_numpy(items))

    def reps(self, rng: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        """Return the vectors."""
        self._require_built()
        return self.user_table, self.item_table

    def user_parameters(self) -> list[nn.Parameter]:
        """Return no parameters."""
        return []

    def item_parameters(self) -> list[nn.Parameter]:
        """Return no parameters."""
        return []
