"""Sparse matrix times dense matrix, the rows of the result shared out to threads."""

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numba
import numpy as np

from icpe.types import BoolArray, FloatArray, IntArray

WORTH_COMPILING_PRODUCT = 16_000_000  # entries × columns; below, the plain product takes a few milliseconds at most


def multiply(
    starts: IntArray,
    columns: IntArray,
    values: FloatArray,
    dense: FloatArray,
    result: FloatArray,
    plus: FloatArray | None = None,
    keep: BoolArray | None = None,
    threads: int = 1,
) -> None:
    """Write the product of a CSR matrix and ``dense``, plus ``plus``, to ``result``, with 0 where ``keep`` is false.

    Args:
        starts: where each row starts, int [rows + 1].
        columns: column of each stored entry, int [entries].
        values: floating [entries].
        dense: floating [columns of the matrix, width], contiguous.
        result: floating [rows, width], contiguous, in memory of its own.
        plus: floating [rows, width], contiguous, or None for 0.
        keep: [rows, width], contiguous, or None for all.
        threads: how many share the rows. Each row is summed by one of them, so the result is the same to the last
            bit for any number.
    """
    flags = plus is not None, keep is not None
    added = result if plus is None else plus
    kept = np.empty((0, 0), np.bool_) if keep is None else keep
    arguments = (starts, columns, values, dense, result, flags, added, kept)
    if threads <= 1:
        _multiply(*arguments, 0, len(starts) - 1)
        return
    # Threads of Python, not numba's: those abort where a process forks or two threads of the caller come at once.
    with ThreadPoolExecutor(threads) as pool:
        parts = _equal_parts(starts, 4 * threads)
        for done in [pool.submit(_multiply, *arguments, first, last) for first, last in parts]:
            done.result()


def _equal_parts(starts: IntArray, parts: int) -> list[tuple[int, int]]:
    """Ranges of rows with about the same number of entries, for the rows of popular items are long."""
    rows = len(starts) - 1
    inner = np.searchsorted(starts, np.linspace(0, int(starts[-1]), parts + 1)[1:-1]).clip(0, rows)
    bounds = np.unique(np.concatenate([[0], inner, [rows]])).tolist()
    return list(pairwise(bounds))


@numba.njit(cache=True, nogil=True, fastmath={"contract", "nsz"})
def _multiply(starts, columns, values, dense, result, flags, added, kept, first, last):  # type: ignore[no-untyped-def]
    adds, masks = flags
    width = dense.shape[1]
    for row in range(first, last):
        total = result[row]
        for place in range(width):
            total[place] = added[row, place] if adds else 0.0
        start, stop = starts[row], starts[row + 1]
        # Four entries at a time: the sum is read and written once for all four. The inner loops vectorise.
        whole = start + (stop - start) // 4 * 4
        for entry in range(start, whole, 4):
            value_0, value_1, value_2, value_3 = values[entry], values[entry + 1], values[entry + 2], values[entry + 3]
            dense_0, dense_1 = dense[columns[entry]], dense[columns[entry + 1]]
            dense_2, dense_3 = dense[columns[entry + 2]], dense[columns[entry + 3]]
            for place in range(width):
                total[place] += (
                    value_0 * dense_0[place]
                    + value_1 * dense_1[place]
                    + value_2 * dense_2[place]
                    + value_3 * dense_3[place]
                )
        for entry in range(whole, stop):
            value, source = values[entry], dense[columns[entry]]
            for place in range(width):
                total[place] += value * source[place]
        if masks:
            for place in range(width):
                total[place] = total[place] if kept[row, place] else 0.0
