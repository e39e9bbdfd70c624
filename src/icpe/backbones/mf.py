"""Matrix factorisation."""

from typing import ClassVar

import torch
from torch import Tensor, nn

from icpe.backbones._checks import positive, whole
from icpe.backbones.base import DotBackbone, take_rows


class MF(DotBackbone):
    """Matrix factorisation: s_ui = z_u · z_i with one trainable row per user and item, and no bias terms.

    Biases would absorb popularity. The spread of the start values matters more than most methods do, so all methods
    that are compared should share it.

    Args:
        dim: length of a row (d).
        init_std: standard deviation of the start values.

    Raises:
        ConfigError: a setting is out of range.

    Example:
        >>> MF(dim=8).settings()
        {'dim': 8, 'init_std': 0.01}
    """

    name: ClassVar[str] = "mf"

    def __init__(self, dim: int = 64, init_std: float = 0.01) -> None:
        super().__init__(whole("dim", dim, at_least=1), positive("init_std", init_std))

    def reps(self, rng: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        """The two tables themselves."""
        self._require_built()
        return self.user_table, self.item_table

    def row_tables(self) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
        """Both tables."""
        return [self.user_table], [self.item_table]

    def ego_users(self, users: Tensor) -> Tensor:
        """Rows of the user table, [n, dim]."""
        return take_rows(self.user_table, users)

    def ego_items(self, items: Tensor) -> Tensor:
        """Rows of the item table, [n, dim]."""
        return take_rows(self.item_table, items)
