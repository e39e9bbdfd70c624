"""Two copies of a backbone side by side."""

import copy
from typing import Any, ClassVar, Literal, Self, get_args

import numpy as np
import torch
from torch import Tensor, nn

from icpe.backbones.base import Backbone
from icpe.data.interactions import Interactions
from icpe.ranking.tables import ScoreTable, SumScores

Size = Literal["half", "full"]
SIZES: tuple[str, ...] = get_args(Size)


class Channels(Backbone):
    """Two independent backbones of one kind whose logits are added; representations lie side by side.

    To the outside it answers for the backbone it is made of, by name and settings, so that a saved model says "mf".

    Args:
        backbone: what to copy, not built yet.
        size: ``"full"`` or ``"half"`` the width for each.

    Raises:
        ConfigError: the backbone has no form of half the width.

    Example:
        >>> from icpe.backbones import MF
        >>> channels = Channels(MF(dim=8), "half")
        >>> channels.first.dim, channels.settings()["dim"]
        (4, 8)
    """

    name: ClassVar[str] = "channels"

    def __init__(self, backbone: Backbone, size: Size) -> None:
        super().__init__()
        self._model = (backbone,)  # in a tuple, for it is a pattern and no part
        self.name = backbone.name  # type: ignore[misc]
        self.default_optimizer, self.default_reg = backbone.default_optimizer, backbone.default_reg
        self.parallel = backbone.parallel
        make = backbone.halved if size == "half" else lambda: copy.deepcopy(backbone)
        self.first, self.second = make(), make()

    @classmethod
    def of(cls, backbone: Backbone, size: Size) -> Self:
        """Channels of a backbone, or of that whose channels it is already."""
        return cls(backbone._model[0] if isinstance(backbone, Channels) else backbone, size)

    @property
    def label(self) -> str:
        """That of the backbone."""
        return self._model[0].label

    def settings(self) -> dict[str, Any]:
        """Those of the backbone."""
        return self._model[0].settings()

    def build(self, train: Interactions, rng: np.random.Generator) -> None:
        """One after the other."""
        self.users, self.items = len(train.users), len(train.items)
        self.first.build(train, rng)
        self.second.build(train, rng)

    def reps(self, rng: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        """Representations of the first and then of the second, [users, 2·D] and [items, 2·D]."""
        self._require_built()
        return self._beside(self.first.reps(rng), self.second.reps(rng))

    def rows(self, users: Tensor, items: Tensor, rng: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        """The same of some users and items."""
        return self._beside(self.first.rows(users, items, rng), self.second.rows(users, items, rng))

    def split(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Representations [..., 2·D] taken apart."""
        first, second = rows.chunk(2, -1)
        return first, second

    def both_scores(self, z_user: Tensor, z_item: Tensor) -> tuple[Tensor, Tensor]:
        """Logits of each channel, [..., 2·D] × [..., 2·D] → twice [...]."""
        (user, other_user), (item, other_item) = self.split(z_user), self.split(z_item)
        return self.first.score(user, item), self.second.score(other_user, other_item)

    def interact(self, z_user: Tensor, z_item: Tensor) -> Tensor:
        """Interaction vectors of both, side by side."""
        (user, other_user), (item, other_item) = self.split(z_user), self.split(z_item)
        return torch.cat([self.first.interact(user, item), self.second.interact(other_user, other_item)], -1)

    def out(self, phi: Tensor) -> Tensor:
        """The sum of both logits."""
        first, second = self.split(phi)
        return self.first.out(first) + self.second.out(second)

    def ego_users(self, users: Tensor) -> Tensor:
        """Trainable rows of both, side by side."""
        return torch.cat([self.first.ego_users(users), self.second.ego_users(users)], -1)

    def ego_items(self, items: Tensor) -> Tensor:
        """Trainable rows of both, side by side."""
        return torch.cat([self.first.ego_items(items), self.second.ego_items(items)], -1)

    def item_parameters(self) -> list[nn.Parameter]:
        """Those of both."""
        return self.first.item_parameters() + self.second.item_parameters()

    def row_tables(self) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
        """Those of both."""
        (users, items), (other_users, other_items) = self.first.row_tables(), self.second.row_tables()
        return users + other_users, items + other_items

    def vectors(self, z_user: Tensor, z_item: Tensor) -> tuple[Tensor, Tensor] | None:
        """Side by side, where both have such vectors: inner products add up."""
        (user, other_user), (item, other_item) = self.split(z_user), self.split(z_item)
        one, two = self.first.vectors(user, item), self.second.vectors(other_user, other_item)
        return None if one is None or two is None else self._beside(one, two)

    def scores(self, z_user: Tensor, z_item: Tensor) -> ScoreTable:
        """As of the two, each in its own fast way."""
        if self.vectors(z_user[:1], z_item[:1]) is not None:
            return super().scores(z_user, z_item)
        (user, other_user), (item, other_item) = self.split(z_user), self.split(z_item)
        return SumScores(self.first.scores(user, item), self.second.scores(other_user, other_item))

    @staticmethod
    def _beside(one: tuple[Tensor, Tensor], two: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        return torch.cat([one[0], two[0]], -1), torch.cat([one[1], two[1]], -1)
