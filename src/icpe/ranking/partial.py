"""The best scores of each row without sorting the rows."""

import numpy as np

from icpe.types import FloatArray, IntArray

_GROUPS = 8  # groups of scores for each place in the list: the more, the fewer scores remain to be sorted
_LOWEST = np.finfo(np.float32).min


def best_of_rows(values: FloatArray, n: int) -> tuple[IntArray, FloatArray]:
    """Columns int32 [rows, n] of the n largest values of each row, and the values, the largest first.

    Ties are broken by the smaller column. Values of -inf are left out; rows with fewer values are padded with -1 and
    -inf.

    Args:
        values: float32 [rows, columns], without NaN.
        n: number of values to keep.

    Example:
        >>> best_of_rows(np.array([[1, 3, 3, -np.inf]], np.float32), 2)
        (array([[1, 2]], dtype=int32), array([[3., 3.]], dtype=float32))
    """
    rows, width = values.shape
    items, best = np.full((rows, n), -1, np.int32), np.full((rows, n), -np.inf, np.float32)
    found = np.flatnonzero(values >= _thresholds(values, n)[:, None])
    row, column = np.divmod(found, width) if rows > 1 else (np.zeros_like(found), found)
    value = values.reshape(-1)[found]
    order = np.lexsort((column, -value, row))
    row = row[order]
    place = np.arange(len(row)) - np.searchsorted(row, row)
    kept = place < n
    order, row, place = order[kept], row[kept], place[kept]
    items[row, place], best[row, place] = column[order], value[order]
    return items, best


def _thresholds(values: FloatArray, n: int) -> FloatArray:
    """For each row a finite number that at least n values reach, or that all finite values reach.

    The largest values of any n groups are n values, so the n-th largest of the groups' maxima is such a number.
    """
    rows, width = values.shape
    size = width // (_GROUPS * n)
    if size < 2:
        return np.full(rows, _LOWEST)
    groups = width // size
    largest = values[:, : groups * size].reshape(rows, size, groups).max(axis=1)
    return np.maximum(np.partition(largest, groups - n, axis=1)[:, groups - n], _LOWEST)
