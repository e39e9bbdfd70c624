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


@numba.njit(cache=True, nogil=True)
def _later(time, tie, one, other):  # type: ignore[no-untyped-def]
    return time[one] > time[other] or (time[one] == time[other] and tie[one] > tie[other])


@numba.njit(cache=True, nogil=True)
def _sift_down(heap, start, size, node, time, tie):  # type: ignore[no-untyped-def]
    # The earliest row is on top, so that one comparison tells whether a new row gets in.
    row = heap[start + node]
    while 2 * node + 1 < size:
        child = 2 * node + 1
        if child + 1 < size and _later(time, tie, heap[start + child], heap[start + child + 1]):
            child += 1
        if not _later(time, tie, row, heap[start + child]):
            break
        heap[start + node] = heap[start + child]
        node = child
    heap[start + node] = row


@numba.njit(cache=True, nogil=True)
def _latest_per_item(item, time, tie, starts):  # type: ignore[no-untyped-def]
    items = starts.shape[0] - 1
    heap = np.empty(starts[items], np.int64)
    filled = np.zeros(items, np.int64)
    for row in range(item.shape[0]):
        of = item[row]
        start, size = starts[of], starts[of + 1] - starts[of]
        if filled[of] < size:
            heap[start + filled[of]] = row
            filled[of] += 1
            if filled[of] == size:
                for node in range(size // 2 - 1, -1, -1):
                    _sift_down(heap, start, size, node, time, tie)
        elif size > 0 and _later(time, tie, row, heap[start]):
            heap[start] = row
            _sift_down(heap, start, size, 0, time, tie)
    for of in range(items):
        start, size = starts[of], starts[of + 1] - starts[of]
        # Heap sort: the earliest goes to the end, then the segment is turned round.
        for last in range(size - 1, 0, -1):
            heap[start], heap[start + last] = heap[start + last], heap[start]
            _sift_down(heap, start, last, 0, time, tie)
        for step in range(size // 2):
            left, right = start + step, start + size - 1 - step
            heap[left], heap[right] = heap[right], heap[left]
    return heap
