"""Matrix factorisation."""

from typing import ClassVar

import torch
from torch import Tensor

from icpe.backbones.base import DotBackbone
from icpe.backbones.rows import RowParameter, all_rows


class MF(DotBackbone):
    """Matrix factorisation: s_ui = z_u · z_i with one trainable row per user and item, and no bias terms.

    Bias terms would absorb popularity. The spread of the initial values can matter more than the choice of the method,
    so all methods in a comparison should share it.

    Example:
        >>> MF(dim=8).settings.as_dict()
        {'dim': 8, 'init_std': 0.01}
    """

    name: ClassVar[str] = "mf"
    shareable: ClassVar[bool] = True

    def reps(self, rng: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        """Return the two tables themselves."""
        self._require_built()
        return self.user_table, all_rows(self.item_table)

    def row_tables(self) -> tuple[list[RowParameter], list[RowParameter]]:
        """Return both tables."""
        return [self.user_table], [self.item_table]
