"""A column as its distinct values and a code per row."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import DTypeLike, NDArray

from icpe.kernels import WORTH_COMPILING
from icpe.types import BoolArray, IntArray

HASHES = (1, 2)  # seeds
_PIECE = 250_000


@dataclass(frozen=True, eq=False)
class Coded:
    """Distinct values in order of first appearance.

    Attributes:
        distinct: the values.
        codes: int32 [rows], position of each row's value in ``distinct``.
        firsts: int64 [distinct], the row in which each value appeared first.
    """

    distinct: pl.Series
    codes: IntArray
    firsts: IntArray

    def keep(self, mask: BoolArray) -> "Coded":
        """The rows where ``mask`` is true; values without rows go."""
        kept = code_values(pl.Series(self.codes[mask]))
        return Coded(self.distinct.gather(kept.distinct.to_numpy()), kept.codes, kept.firsts)


class GrowingArray:
    """One array filled piece by piece.

    Large arrays of NumPy lie in huge pages; the same amount in small pieces costs the system far more time.
    """

    def __init__(self, dtype: DTypeLike) -> None:
        self._array = np.empty(1 << 21, dtype)
        self._size = 0

    def more(self, size: int) -> NDArray[Any]:
        """The next ``size`` places, to be filled by the caller."""
        start, self._size = self._size, self._size + size
        if self._size > len(self._array):
            larger = np.empty(max(2 * len(self._array), self._size), self._array.dtype)
            larger[:start] = self._array[:start]
            self._array = larger
        return self._array[start : self._size]

    def finish(self) -> NDArray[Any]:
        """What was filled so far."""
        return self._array[: self._size]


class Coder:
    """Codes a long column piece by piece, so that its values need not be in memory at the same time."""

    def __init__(self) -> None:
        from icpe.kernels.factorize import Factorizer  # late: numba takes a while to import

        self._factorizer = Factorizer()
        self.rows = 0
        self._distinct: list[pl.Series] = []
        self._codes = GrowingArray(np.int32)
        self._firsts: list[IntArray] = []

    def add(self, values: pl.Series, first_hash: pl.Series, second_hash: pl.Series) -> None:
        """Code the next rows, given with their hashes from the two seeds in ``HASHES``."""
        codes = self._codes.more(len(values))
        new = self._factorizer.add(first_hash.to_numpy(), second_hash.to_numpy(), codes)
        self._distinct.append(values.gather(new))
        self._firsts.append(new + self.rows)
        self.rows += len(values)

    def finish(self) -> Coded:
        """Everything added so far."""
        return Coded(pl.concat(self._distinct), self._codes.finish(), np.concatenate(self._firsts))


def code_values(values: pl.Series) -> Coded:
    """Code a column that is in memory."""
    if len(values) >= WORTH_COMPILING:
        coder = Coder()
        for start in range(0, len(values), _PIECE):
            piece = values.slice(start, _PIECE)
            coder.add(piece, piece.hash(HASHES[0]), piece.hash(HASHES[1]))
        return coder.finish()
    rows = values.to_frame("value").with_row_index("row")
    first = rows.group_by("value", maintain_order=True).first()
    codes = positions(values, first["value"])
    return Coded(first["value"], codes, first["row"].to_numpy().astype(np.int64))


def positions(values: pl.Series, among: pl.Series) -> IntArray:
    """Position of each value in ``among``, int32; -1 where it is not there."""
    known = among.to_frame("id").with_row_index("position")
    found = values.to_frame("id").join(known, on="id", how="left", maintain_order="left")["position"]
    return found.cast(pl.Int32).fill_null(-1).to_numpy()
