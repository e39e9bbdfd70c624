"""Which rows of a table each process holds."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from icpe.shards.group import Group
from icpe.types import IntArray

ALIGNED = 512
"""Rows of a process begin at multiples of this number, so that products of blocks of rows have the same blocks, and
hence the same bits, for any number of processes."""


@dataclass(frozen=True)
class Share:
    """The rows of a table that this process holds: ``first`` to ``last``, in the order of the ranks.

    Attributes:
        group: the processes among which the rows are divided.
        bounds: first row of each process, and the number of all rows.

    Example:
        >>> Share(Group(1, 2, None), (0, 512, 900)).own(np.array([3, 700])).tolist()
        [1]
    """

    group: Group
    bounds: tuple[int, ...]

    @classmethod
    def of(cls, rows: int, group: Group) -> "Share":
        """Return the share of this process in a table with so many rows."""
        blocks = -(-rows // ALIGNED)
        ends = (min(rows, ALIGNED * (blocks * rank // group.size)) for rank in range(group.size + 1))
        return cls(group, tuple(ends))

    @property
    def first(self) -> int:
        """The first row of this process."""
        return self.bounds[self.group.rank]

    @property
    def last(self) -> int:
        """The last row of this process + 1."""
        return self.bounds[self.group.rank + 1]

    @property
    def rows(self) -> int:
        """Number of rows of all processes."""
        return self.bounds[-1]

    @property
    def counts(self) -> list[int]:
        """Number of rows of each process."""
        return np.diff(self.bounds).tolist()

    def own(self, codes: IntArray) -> IntArray:
        """Return the positions of the codes that belong to this process."""
        return np.flatnonzero((codes >= self.first) & (codes < self.last))

    def spread(self, mine: Tensor, codes: IntArray) -> Tensor:
        """Return rows for codes that all processes ask for alike, [n, ...]. The codes are distinct and ascending.

        Args:
            mine: the rows of the codes that belong to this process, in their order.
            codes: int [n].
        """
        counts = np.diff(np.searchsorted(codes, self.bounds)).tolist()
        return self.group.gathered(mine, counts)

    def fetched(self, block: Tensor, codes: IntArray) -> Tensor:
        """Return rows for codes that only this process asks for, [n, ...]. The codes are ascending.

        Args:
            block: all rows of this process.
            codes: int [n].
        """
        asked = np.diff(np.searchsorted(codes, self.bounds)).tolist()
        wanted, to = self.group.exchanged(torch.from_numpy(codes.astype(np.int64)), asked)
        rows, _ = self.group.exchanged(block[wanted - self.first], to)
        return rows

    def whole(self, block: Tensor) -> Tensor:
        """Return the rows of all processes, given those of this one."""
        table = block.new_empty(self.rows, *block.shape[1:])
        return self.group.filled(table, block.detach(), [slice(*ends) for ends in pairwise(self.bounds)])
