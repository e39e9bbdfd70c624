"""Two independent copies of a backbone, used as one."""

import copy
from typing import ClassVar, Literal, Self

import numpy as np
import torch
from torch import Tensor, nn

from icpe.backbones.base import Backbone
from icpe.backbones.rows import RowParameter
from icpe.data.interactions import Interactions
from icpe.ranking.tables import ScoreTable, SumScores

Size = Literal["half", "full"]


class Channels(Backbone):
    """Two independent backbones of one kind. Their logits are added and their representations concatenated.

    It has the name and the settings of the original backbone, so that a saved model says "mf".

    Args:
        backbone: the backbone to copy, not built yet.
        size: ``"full"`` for two complete copies, ``"half"`` for two copies of half the width.

    Attributes:
        first: the first channel.
        second: the second channel.

    Raises:
        ConfigError: the backbone has no form of half the width.

    Example:
        >>> from icpe.backbones import MF
        >>> channels = Channels(MF(dim=8), "half")
        >>> channels.first.settings.dim, channels.settings.dim
        (4, 8)
    """

    name: ClassVar[str] = "channels"

    def __init__(self, backbone: Backbone, size: Size) -> None:
        super().__init__()
        self._original = (backbone,)  # in a tuple, so that torch does not register it as a submodule
        self.name = backbone.name  # type: ignore[misc]
        self.default_optimizer, self.default_reg = backbone.default_optimizer, backbone.default_reg
        self.computes_all, self.inner_product = backbone.computes_all, backbone.inner_product
        self.settings = backbone.settings
        make = backbone.halved if size == "half" else lambda: copy.deepcopy(backbone)
        self.first, self.second = make(), make()

    @classmethod
    def of(cls, backbone: Backbone, size: Size) -> Self:
        """Return the channels of a backbone, or of the original backbone if it consists of channels already."""
        return cls(backbone._original[0] if isinstance(backbone, Channels) else backbone, size)

    @property
    def label(self) -> str:
        """The name of the original backbone in tables and figures."""
        return self._original[0].label

    def build(self, train: Interactions, rng: np.random.Generator) -> None:
        """Build the first channel, then the second."""
        self.users, self.items = len(train.users), len(train.items)
        self.first.build(train, rng)
        self.second.build(train, rng)

    def reps(self, rng: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        """Return the concatenated representations of both channels, [users, 2·D] and [items, 2·D]."""
        self._require_built()
        return self._concatenated(self.first.reps(rng), self.second.reps(rng))

    def rows(self, users: Tensor, items: Tensor, rng: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        """Return the concatenated representations of some users and items."""
        return self._concatenated(self.first.rows(users, items, rng), self.second.rows(users, items, rng))

    def split(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return the parts of concatenated representations [..., 2·D] that belong to each channel."""
        first, second = rows.chunk(2, -1)
        return first, second

    def interact(self, z_user: Tensor, z_item: Tensor) -> Tensor:
        """Return the concatenated interaction vectors of both channels."""
        (user, other_user), (item, other_item) = self.split(z_user), self.split(z_item)
        return torch.cat([self.first.interact(user, item), self.second.interact(other_user, other_item)], -1)

    def out(self, phi: Tensor) -> Tensor:
        """Return the sum of both logits."""
        first, second = self.split(phi)
        return self.first.out(first) + self.second.out(second)

    def ego_users(self, users: Tensor) -> Tensor:
        """Return the concatenated trainable rows of both channels."""
        return torch.cat([self.first.ego_users(users), self.second.ego_users(users)], -1)

    def ego_items(self, items: Tensor) -> Tensor:
        """Return the concatenated trainable rows of both channels."""
        return torch.cat([self.first.ego_items(items), self.second.ego_items(items)], -1)

    def user_parameters(self) -> list[nn.Parameter]:
        """Return the user parameters of both channels."""
        return self.first.user_parameters() + self.second.user_parameters()

    def item_parameters(self) -> list[nn.Parameter]:
        """Return the item parameters of both channels."""
        return self.first.item_parameters() + self.second.item_parameters()

    def row_tables(self) -> tuple[list[RowParameter], list[RowParameter]]:
        """Return the row tables of both channels."""
        (users, items), (other_users, other_items) = self.first.row_tables(), self.second.row_tables()
        return users + other_users, items + other_items

    def scores(self, z_user: Tensor, z_item: Tensor) -> ScoreTable:
        """Return the sum of both channels' scores, each computed in its own fast way."""
        if self.inner_product:
            return super().scores(z_user, z_item)
        (user, other_user), (item, other_item) = self.split(z_user), self.split(z_item)
        return SumScores(self.first.scores(user, item), self.second.scores(other_user, other_item))

    @staticmethod
    def _concatenated(one: tuple[Tensor, Tensor], two: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        return torch.cat([one[0], two[0]], -1), torch.cat([one[1], two[1]], -1)
