"""Sparse matrix times dense matrix, the rows of the result shared out to threads."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numba
import numpy as np

from icpe.kernels.prefetch import prefetch_row
from icpe.types import BoolArray, FloatArray, IntArray

WORTH_COMPILING_PRODUCT = 16_000_000  # entries × columns; below, the plain product takes a few milliseconds at most

_AHEAD = 8  # entries whose rows are asked for before their use: a third less time than without, on Gowalla
_NO_PLACES = np.empty(0, np.int32)
_NO_MASK = np.empty((0, 0), np.bool_)


def multiply(
    starts: IntArray,
    columns: IntArray,
    values: FloatArray,
    dense: FloatArray,
    result: FloatArray,
    plus: FloatArray | None = None,
    keep: BoolArray | None = None,
    places: IntArray | None = None,
    begin: int = 0,
    threads: int = 1,
) -> None:
    """Write the product of a CSR matrix and ``dense``, plus ``plus``, to ``result``, with 0 where ``keep`` is false.

    Args:
        starts: where each row starts, int [rows + 1].
        columns: column of each stored entry, int [entries].
        values: floating [entries].
        dense: floating [columns of the matrix, width], contiguous.
        result: floating [rows, width], contiguous, in memory of its own; shorter for a stretch of the rows.
        plus: floating [rows, width], contiguous, or None for 0.
        keep: [rows, width], contiguous, or None for all.
        places: where ``plus`` has each row, int32 [rows], -1 for a row of 0; None: it has all, in order.
        begin: the row that is the first of ``result``.
        threads: how many share the rows. Each row is summed by one of them, so the result is the same to the last
            bit for any number.
    """
    arguments = (columns, values, dense, result, begin, *_extras(result, plus, keep, places))
    _share_out(_multiply, starts, (begin, begin + len(result)), arguments, threads)


def multiply_rows(
    starts: IntArray,
    columns: IntArray,
    values: FloatArray,
    dense: FloatArray,
    rows: IntArray,
    result: FloatArray,
    threads: int = 1,
) -> None:
    """Write some rows of the product, int [n], to ``result`` [n, width]; the other arguments as in :func:`multiply`."""
    lengths = starts[rows + 1] - starts[rows]
    ends = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
    arguments = (starts, columns, values, dense, rows, result)
    _share_out(_multiply_rows, ends, (0, len(rows)), arguments, threads)


def multiply_few(
    starts: IntArray,
    columns: IntArray,
    values: FloatArray,
    dense: FloatArray,
    places: IntArray,
    result: FloatArray,
    plus: FloatArray,
    keep: BoolArray | None = None,
    begin: int = 0,
    threads: int = 1,
) -> None:
    """:func:`multiply` for a dense matrix most of whose rows are 0: ``dense`` and ``plus`` hold the others only.

    Args:
        starts: as in :func:`multiply`.
        columns: likewise.
        values: likewise.
        dense: floating [n, width], contiguous.
        places: where ``dense`` has each of its rows, and ``plus`` too, int32 [rows], -1 for a row of 0.
        result: as in :func:`multiply`.
        plus: floating [n, width], contiguous.
        keep: as in :func:`multiply`.
        begin: likewise.
        threads: likewise.
    """
    arguments = (columns, values, dense, result, begin, *_extras(result, plus, keep, places))
    _share_out(_multiply_few, starts, (begin, begin + len(result)), arguments, threads)


def _extras(
    result: FloatArray, plus: FloatArray | None, keep: BoolArray | None, places: IntArray | None
) -> tuple[Any, ...]:
    """Flags and arrays of what is optional, always of the same types, so that one compiled version does."""
    flags = plus is not None, places is not None, keep is not None
    return (
        flags,
        result if plus is None else plus,
        _NO_PLACES if places is None else places,
        _NO_MASK if keep is None else keep,
    )


def _share_out(
    kernel: Callable[..., None],
    starts: IntArray,
    rows: tuple[int, int],
    arguments: tuple[Any, ...],
    threads: int,
) -> None:
    """Run the kernel on a stretch of rows, whose entries start where ``starts`` says."""
    if threads <= 1:
        kernel(starts, *arguments, *rows)
        return
    # Threads of Python, not numba's: those abort where a process forks or two threads of the caller come at once.
    with ThreadPoolExecutor(threads) as pool:
        parts = _equal_parts(starts, *rows, 4 * threads)
        for done in [pool.submit(kernel, starts, *arguments, first, last) for first, last in parts]:
            done.result()


def _equal_parts(starts: IntArray, first: int, last: int, parts: int) -> list[tuple[int, int]]:
    """Ranges of rows with about the same number of entries, for the rows of popular items are long."""
    inner = np.searchsorted(starts, np.linspace(int(starts[first]), int(starts[last]), parts + 1)[1:-1])
    bounds = np.unique(np.concatenate([[first], inner.clip(first, last), [last]])).tolist()
    return list(pairwise(bounds))


@numba.njit(cache=True, nogil=True, fastmath={"contract", "nsz"})
def _multiply(  # type: ignore[no-untyped-def]
    starts, columns, values, dense, result, begin, flags, added, places, kept, first, last
):
    for row in range(first, last):
        total = result[row - begin]
        _fill(total, row, flags, added, places)
        _add(total, columns, values, dense, starts[row], starts[row + 1])
        if flags[2]:
            _mask(total, kept[row])


@numba.njit(cache=True, nogil=True, fastmath={"contract", "nsz"})
def _multiply_rows(ends, starts, columns, values, dense, rows, result, first, last):  # type: ignore[no-untyped-def]
    for number in range(first, last):
        row = rows[number]
        total = result[number]
        for place in range(len(total)):
            total[place] = 0.0
        _add(total, columns, values, dense, starts[row], starts[row + 1])


@numba.njit(cache=True, nogil=True, fastmath={"contract", "nsz"})
def _multiply_few(  # type: ignore[no-untyped-def]
    starts, columns, values, dense, result, begin, flags, added, places, kept, first, last
):
    # To look for the few rows among all entries costs less than to scatter them: each sum is written once, and no two
    # threads write the same.
    for row in range(first, last):
        total = result[row - begin]
        _fill(total, row, flags, added, places)
        for entry in range(starts[row], starts[row + 1]):
            place = places[columns[entry]]
            if place >= 0:
                value, source = values[entry], dense[place]
                for column in range(dense.shape[1]):
                    total[column] += value * source[column]
        if flags[2]:
            _mask(total, kept[row])


@numba.njit(inline="always")
def _fill(total, row, flags, added, places):  # type: ignore[no-untyped-def]
    # Loops, for numba copies slices several times slower.
    adds, placed, _ = flags
    source = places[row] if placed else row
    if adds and source >= 0:
        for place in range(len(total)):
            total[place] = added[source, place]
    else:
        for place in range(len(total)):
            total[place] = 0.0


@numba.njit(inline="always")
def _add(total, columns, values, dense, start, stop):  # type: ignore[no-untyped-def]
    """Add the entries' values times their rows of ``dense``."""
    # Four entries at a time: the sum is read and written once for all four. The inner loops vectorise.
    width = dense.shape[1]
    whole = start + (stop - start) // 4 * 4
    for entry in range(start, whole, 4):
        for later in range(entry + _AHEAD, min(entry + _AHEAD + 4, len(columns))):
            prefetch_row(dense, columns[later])
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


@numba.njit(inline="always")
def _mask(total, kept):  # type: ignore[no-untyped-def]
    for place in range(len(total)):
        total[place] = total[place] if kept[place] else 0.0
