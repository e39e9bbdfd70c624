"""Sorting of pairs, with user, item and row packed into one integer."""

import numba
import numpy as np

from icpe.types import IntArray


def sort_pairs(
    user: IntArray, item: IntArray, item_bits: int, row_bits: int, time: IntArray | None
) -> tuple[IntArray, IntArray, IntArray]:
    """Distinct pairs sorted by user and item, and the row of each: the earliest one, or the first for equal times.

    Sorting integers is vectorised and several times faster than sorting indices.

    Args:
        user: int32 [rows].
        item: int32 [rows], below 2 ** ``item_bits``. User, item and row together must fit into 63 bits.
        item_bits: number of bits for an item code.
        row_bits: number of bits for a row number.
        time: int64 [rows], or None without timestamps.
    """
    packed = np.empty(len(user), np.int64)
    _pack(user, item, item_bits, row_bits, packed)
    packed.sort()
    users, items = np.empty(len(user), np.int32), np.empty(len(user), np.int32)
    times = np.empty(0, np.int64) if time is None else time
    distinct = _unpack(packed, item_bits, row_bits, times, users, items)
    return users[:distinct], items[:distinct], packed[:distinct]


@numba.njit(cache=True, nogil=True)
def _pack(user, item, item_bits, row_bits, packed):  # type: ignore[no-untyped-def]
    for row in range(user.shape[0]):
        packed[row] = (((np.int64(user[row]) << item_bits) | np.int64(item[row])) << row_bits) | row


@numba.njit(cache=True, nogil=True)
def _unpack(packed, item_bits, row_bits, time, user, item):  # type: ignore[no-untyped-def]
    # The rows of distinct pairs overwrite the packed values.
    item_mask, row_mask = (np.int64(1) << item_bits) - 1, (np.int64(1) << row_bits) - 1
    timed = time.shape[0] > 0
    before, distinct = np.int64(-1), 0
    for place in range(packed.shape[0]):
        pair, row = packed[place] >> row_bits, packed[place] & row_mask
        if pair != before:
            user[distinct] = pair >> item_bits
            item[distinct] = pair & item_mask
            packed[distinct] = row
            distinct += 1
            before = pair
        elif timed and time[row] < time[packed[distinct - 1]]:
            packed[distinct - 1] = row
    return distinct
