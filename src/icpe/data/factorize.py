"""Factorized columns: the distinct values of a column, and for each row the code of its value."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import DTypeLike, NDArray

from icpe import kernels
from icpe.data.lookup import positions
from icpe.types import BoolArray, IntArray

HASH_SEEDS = (1, 2)
"""Seeds of the two hashes that :meth:`ColumnFactorizer.add` expects."""

_PIECE = 250_000


@dataclass(frozen=True, eq=False)
class Factorized:
    """A column as distinct values, in order of first appearance, and codes.

    Attributes:
        distinct: the distinct values.
        codes: int32 [rows], position of each row's value in ``distinct``.
        first_rows: int64 [distinct], the first row in which each value appears.
    """

    distinct: pl.Series
    codes: IntArray
    first_rows: IntArray

    def keep(self, mask: BoolArray) -> "Factorized":
        """The rows where ``mask`` is true. Values that no longer occur are removed."""
        kept = factorize(pl.Series(self.codes[mask]))
        return Factorized(self.distinct.gather(kept.distinct.to_numpy()), kept.codes, kept.first_rows)


class GrowingArray:
    """One array that is filled piece by piece.

    NumPy allocates large arrays in huge pages; many small pieces of the same total size take much longer to allocate.
    """

    def __init__(self, dtype: DTypeLike) -> None:
        self._array = np.empty(1 << 21, dtype)
        self._size = 0

    def extend(self, size: int) -> NDArray[Any]:
        """The next ``size`` elements, uninitialised, for the caller to fill."""
        start, self._size = self._size, self._size + size
        if self._size > len(self._array):
            larger = np.empty(max(2 * len(self._array), self._size), self._array.dtype)
            larger[:start] = self._array[:start]
            self._array = larger
        return self._array[start : self._size]

    def finish(self) -> NDArray[Any]:
        """The elements filled so far."""
        return self._array[: self._size]


class ColumnFactorizer:
    """Factorizes a long column piece by piece, so that its values are never in memory all at once."""

    def __init__(self) -> None:
        from icpe.kernels.factorize import Factorizer  # imported here because numba takes long to import

        self._factorizer = Factorizer()
        self.rows = 0
        self._distinct: list[pl.Series] = []
        self._codes = GrowingArray(np.int32)
        self._first_rows: list[IntArray] = []

    def add(self, values: pl.Series, first_hash: pl.Series, second_hash: pl.Series) -> None:
        """Add the next rows, with their hashes under the two seeds of ``HASH_SEEDS``."""
        codes = self._codes.extend(len(values))
        new = self._factorizer.add(first_hash.to_numpy(), second_hash.to_numpy(), codes)
        self._distinct.append(values.gather(new))
        self._first_rows.append(new + self.rows)
        self.rows += len(values)

    def finish(self) -> Factorized:
        """The factorized column of all rows added so far."""
        return Factorized(pl.concat(self._distinct), self._codes.finish(), np.concatenate(self._first_rows))


def factorize(values: pl.Series) -> Factorized:
    """The distinct values and codes of a column that is in memory."""
    if len(values) >= kernels.WORTH_COMPILING:
        factorizer = ColumnFactorizer()
        for start in range(0, len(values), _PIECE):
            piece = values.slice(start, _PIECE)
            factorizer.add(piece, piece.hash(HASH_SEEDS[0]), piece.hash(HASH_SEEDS[1]))
        return factorizer.finish()
    rows = values.to_frame("value").with_row_index("row")
    first = rows.group_by("value", maintain_order=True).first()
    codes = positions(values, first["value"])
    return Factorized(first["value"], codes, first["row"].to_numpy().astype(np.int64))
