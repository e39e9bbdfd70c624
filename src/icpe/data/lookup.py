"""Positions of ids in a list of ids."""

import polars as pl

from icpe.types import IntArray


def positions(values: pl.Series, among: pl.Series) -> IntArray:
    """Position of each value in ``among``, int32 [values]; -1 for values that do not occur in it.

    Example:
        >>> positions(pl.Series(["b", "z"]), pl.Series(["a", "b"])).tolist()
        [1, -1]
    """
    known = among.to_frame("id").with_row_index("position")
    found = values.to_frame("id").join(known, on="id", how="left", maintain_order="left")["position"]
    return found.cast(pl.Int32).fill_null(-1).to_numpy()
