"""Positions of ids in a list of ids, and membership in a sorted array."""

from bisect import bisect_left

import numpy as np
import polars as pl

from icpe.types import BoolArray, IntArray

_FEW = 16  # texts for which a search in Python is faster than a call of polars


def positions(values: pl.Series, among: pl.Series) -> IntArray:
    """Position of each value in ``among``, int32 [values]; -1 for values that do not occur in it.

    Example:
        >>> positions(pl.Series(["b", "z"]), pl.Series(["a", "b"])).tolist()
        [1, -1]
    """
    known = among.to_frame("id").with_row_index("position")
    found = values.to_frame("id").join(known, on="id", how="left", maintain_order="left")["position"]
    return found.cast(pl.Int32).fill_null(-1).to_numpy()


class IdIndex:
    """Positions of single ids in a list of distinct ids, found by binary search.

    :func:`positions` reads the whole list at every call; this index reads it once. Sorted ids, as those of a log, need
    no memory beyond the list itself. For others the index keeps a sorted copy and 8 bytes per id.

    Args:
        ids: distinct ids, integers or text.

    Example:
        >>> IdIndex(pl.Series(["a", "b"])).codes(pl.Series(["b", "z"])).tolist()
        [1, -1]
    """

    def __init__(self, ids: pl.Series) -> None:
        ids = ids.rechunk()
        order = None if ids.is_sorted() else ids.arg_sort()
        self._ids = ids if order is None else ids.gather(order)
        self._order = None if order is None else order.to_numpy()
        self._numbers = None if ids.dtype == pl.String else self._ids.to_numpy()

    def codes(self, values: pl.Series) -> IntArray:
        """Position of each value, int32 [values]; -1 for values that do not occur. The types must agree."""
        if len(self._ids) == 0:
            return np.full(len(values), -1, np.int32)
        if self._numbers is not None:
            wanted = values.to_numpy()
            place = np.minimum(np.searchsorted(self._numbers, wanted), len(self._ids) - 1)
            found = self._numbers[place] == wanted
        elif len(values) <= _FEW:
            texts = values.to_list()
            place = np.array([min(bisect_left(self._ids, one), len(self._ids) - 1) for one in texts], np.int64)
            found = np.array([self._ids[at] == one for at, one in zip(place.tolist(), texts, strict=True)], np.bool_)
        else:
            place = np.minimum(self._ids.search_sorted(values).to_numpy(), len(self._ids) - 1)
            found = (self._ids.gather(place) == values).to_numpy()
        code = place if self._order is None else self._order[place]
        return np.where(found, code, -1).astype(np.int32)


def contains(ordered: IntArray, values: IntArray) -> BoolArray:
    """Whether each value occurs in the sorted array, in the shape of ``values``.

    Example:
        >>> contains(np.array([2, 5]), np.array([[5, 3]])).tolist()
        [[True, False]]
    """
    if not len(ordered):
        return np.zeros(values.shape, bool)
    place = np.minimum(np.searchsorted(ordered, values), len(ordered) - 1)
    return np.asarray(ordered[place] == values)
