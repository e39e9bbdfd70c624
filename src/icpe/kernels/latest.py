"""The latest few rows of every item."""

from typing import cast

import numba
import numpy as np

from icpe.types import IntArray, UIntArray


def latest_per_item(item: IntArray, time: IntArray, tie: UIntArray, quota: IntArray) -> IntArray:
    """Row numbers of each item's ``quota[item]`` latest rows, item by item, earliest first.

    One pass with a bounded heap per item: linear in the rows, where sorting everything by item and time is not.

    Args:
        item: int32 [rows].
        time: int64 [rows]; equal times are ordered by ``tie``.
        tie: uint64 [rows].
        quota: int64 [items], at most the number of rows of the item.
    """
    starts = np.zeros(len(quota) + 1, np.int64)
    np.cumsum(quota, out=starts[1:])
    return cast(IntArray, _latest_per_item(item, time, tie, starts))


@numba.njit(cache=True, nogil=True, inline="always")
def _later(time, tie, other_time, other_tie):  # type: ignore[no-untyped-def]
    return time > other_time or (time == other_time and tie > other_tie)


@numba.njit(cache=True, nogil=True)
def _place(times, ties, rows, start, size, node, time, tie, row):  # type: ignore[no-untyped-def]
    # Puts a row into the heap from `node` downwards. The earliest row is on top, so that one comparison tells
    # whether a new row gets in. Times lie in the heap itself: to look them up by row would miss the cache each time.
    while 2 * node + 1 < size:
        child = 2 * node + 1
        left, right = start + child, start + child + 1
        if child + 1 < size and _later(times[left], ties[left], times[right], ties[right]):
            child += 1
        below, here = start + child, start + node
        if not _later(time, tie, times[below], ties[below]):
            break
        times[here], ties[here], rows[here] = times[below], ties[below], rows[below]
        node = child
    times[start + node], ties[start + node], rows[start + node] = time, tie, row


@numba.njit(cache=True, nogil=True)
def _latest_per_item(item, time, tie, starts):  # type: ignore[no-untyped-def]
    items = starts.shape[0] - 1
    times = np.empty(starts[items], np.int64)
    ties = np.empty(starts[items], np.uint64)
    rows = np.empty(starts[items], np.int64)
    filled = np.zeros(items, np.int64)
    for row in range(item.shape[0]):
        of = item[row]
        start, size = starts[of], starts[of + 1] - starts[of]
        if filled[of] < size:
            place = start + filled[of]
            times[place], ties[place], rows[place] = time[row], tie[row], row
            filled[of] += 1
            if filled[of] == size:
                for node in range(size // 2 - 1, -1, -1):
                    at = start + node
                    _place(times, ties, rows, start, size, node, times[at], ties[at], rows[at])
        elif size > 0 and _later(time[row], tie[row], times[start], ties[start]):
            _place(times, ties, rows, start, size, 0, time[row], tie[row], row)
    for of in range(items):
        start, size = starts[of], starts[of + 1] - starts[of]
        # Heap sort: the earliest goes to the end of what is left, then the segment is turned round.
        for last in range(size - 1, 0, -1):
            end = start + last
            late_time, late_tie, late_row = times[end], ties[end], rows[end]
            times[end], ties[end], rows[end] = times[start], ties[start], rows[start]
            _place(times, ties, rows, start, last, 0, late_time, late_tie, late_row)
        for step in range(size // 2):
            left, right = start + step, start + size - 1 - step
            rows[left], rows[right] = rows[right], rows[left]
    return rows
