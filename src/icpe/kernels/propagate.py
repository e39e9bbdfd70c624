"""Product of a sparse and a dense matrix, with the rows of the result divided among threads.

One thread sums a row, so that the result has the same bits for any number of threads.
"""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numba
import numpy as np

from icpe import threads
from icpe.kernels.prefetch import prefetch_row
from icpe.types import BoolArray, FloatArray, IntArray

WORTH_COMPILING_PRODUCT = 16_000_000  # entries × columns; below this, torch takes a few milliseconds

_AHEAD = 8  # entries whose rows are prefetched, which saves a third of the time on Gowalla
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
) -> None:
    """Write the product of a CSR matrix and ``dense``, plus ``plus``, to ``result``, with 0 where ``keep`` is false.

    Args:
        starts: where the entries of each row start, int [rows + 1].
        columns: column of each stored entry, int [entries].
        values: floating [entries].
        dense: floating [columns of the matrix, width], contiguous.
        result: floating [rows, width], contiguous, in separate memory. It is shorter for a range of the rows.
        plus: floating [rows, width], contiguous, or None to add nothing.
        keep: mask [rows, width], contiguous, or None to keep everything.
        places: position of each row in ``plus``, int32 [rows], -1 for a row of zeros; None if ``plus`` has all rows.
        begin: row of the matrix that corresponds to the first row of ``result``.
    """
    arguments = (columns, values, dense, result, begin, *_extras(result, plus, keep, places))
    _share_out(_multiply, starts, (begin, begin + len(result)), arguments)


def multiply_rows(
    starts: IntArray,
    columns: IntArray,
    values: FloatArray,
    dense: FloatArray,
    rows: IntArray,
    result: FloatArray,
) -> None:
    """Write the given rows of the product, int [n], to ``result`` [n, width]; otherwise as :func:`multiply`."""
    lengths = starts[rows + 1] - starts[rows]
    ends = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
    arguments = (starts, columns, values, dense, rows, result)
    _share_out(_multiply_rows, ends, (0, len(rows)), arguments)


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
) -> None:
    """:func:`multiply` for a dense matrix with mostly zero rows. ``dense`` and ``plus`` contain only the other rows.

    Args:
        starts: as in :func:`multiply`.
        columns: as in :func:`multiply`.
        values: as in :func:`multiply`.
        dense: floating [n, width], contiguous.
        places: position of each row in ``dense`` and ``plus``, int32 [rows], -1 for a row of zeros.
        result: as in :func:`multiply`.
        plus: floating [n, width], contiguous.
        keep: as in :func:`multiply`.
        begin: as in :func:`multiply`.
    """
    arguments = (columns, values, dense, result, begin, *_extras(result, plus, keep, places))
    _share_out(_multiply_few, starts, (begin, begin + len(result)), arguments)


def _extras(
    result: FloatArray, plus: FloatArray | None, keep: BoolArray | None, places: IntArray | None
) -> tuple[Any, ...]:
    """Flags and arrays of the optional arguments. Their types are always the same, so one compiled version suffices."""
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
) -> None:
    """Run the kernel on a range of rows whose entries start at ``starts``, divided among threads."""
    parts = [rows] if threads.count() == 1 else _equal_parts(starts, *rows, 4 * threads.count())
    # Python threads, because numba's threads abort if the process forks or two threads call them at the same time.
    threads.run_parts(kernel, [(starts, *arguments, *part) for part in parts])


def _equal_parts(starts: IntArray, first: int, last: int, parts: int) -> list[tuple[int, int]]:
    """Ranges of rows with about the same number of entries, because the rows of popular items are long."""
    begin, end = int(starts[first]), int(starts[last])
    # Of the type of the starts, because NumPy would otherwise convert all of them.
    wanted = np.array([begin + (end - begin) * part // parts for part in range(1, parts)], starts.dtype)
    bounds = sorted({first, *np.searchsorted(starts, wanted).clip(first, last).tolist(), last})
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
    # Searching all entries for the few rows is cheaper than scattering them: each sum is written once, and no two
    # threads write to the same row.
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
    # Loops, because numba copies slices several times more slowly.
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
    """Add the values of the entries times their rows of ``dense``."""
    # Four entries at a time, so that the sum is read and written once for all four. The inner loops are vectorised.
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
