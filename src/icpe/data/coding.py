"""A column as its distinct values and a code per row."""

from dataclasses import dataclass

import numpy as np
import polars as pl

from icpe.kernels import WORTH_COMPILING
from icpe.types import BoolArray, IntArray

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


class Coder:
    """Codes a long column piece by piece, so that its values need not be in memory at the same time."""

    def __init__(self) -> None:
        from icpe.kernels.factorize import Factorizer  # late: numba takes a while to import

        self._factorizer = Factorizer()
        self._rows = 0
        self._distinct: list[pl.Series] = []
        self._codes: list[IntArray] = []
        self._firsts: list[IntArray] = []

    def add(self, values: pl.Series) -> None:
        """Code the next rows."""
        codes, new = self._factorizer.add(values.hash(1).to_numpy(), values.hash(2).to_numpy())
        self._distinct.append(values.gather(new))
        self._codes.append(codes)
        self._firsts.append(new + self._rows)
        self._rows += len(values)

    def finish(self) -> Coded:
        """Everything added so far."""
        return Coded(pl.concat(self._distinct), np.concatenate(self._codes), np.concatenate(self._firsts))


def code_values(values: pl.Series) -> Coded:
    """Code a column that is in memory."""
    if len(values) >= WORTH_COMPILING:
        coder = Coder()
        for start in range(0, len(values), _PIECE):
            coder.add(values.slice(start, _PIECE))
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
