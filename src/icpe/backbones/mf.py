"""Matrix factorisation."""

from typing import ClassVar

import torch
from torch import Tensor

from icpe.backbones.base import DotBackbone
from icpe.backbones.rows import RowParameter, take_rows


class MF(DotBackbone):
    """Matrix factorisation: s_ui = z_u · z_i with one trainable row per user and item, and no bias terms.

    Bias terms would absorb popularity. The spread of the initial values can matter more than the choice of the method,
    so all methods in a comparison should share it.

    Example:
        >>> MF(dim=8).settings.as_dict()
        {'dim': 8, 'init_std': 0.01}
    """

    name: ClassVar[str] = "mf"

    def reps(self, rng: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        """Return the two tables themselves."""
        self._require_built()
        return self.user_table, self.item_table

    def row_tables(self) -> tuple[list[RowParameter], list[RowParameter]]:
        """Return both tables."""
        return [self.user_table], [self.item_table]

    def ego_users(self, users: Tensor) -> Tensor:
        """Return rows of the user table, [n, dim]."""
        return take_rows(self.user_table, users)

    def ego_items(self, items: Tensor) -> Tensor:
        """Return rows of the item table, [n, dim]."""
        return take_rows(self.item_table, items)
