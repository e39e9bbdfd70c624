"""Sorting of pairs in two passes: rows are first distributed over blocks of users, then sorted within each block."""

import numba
import numpy as np

from icpe.types import IntArray

_BLOCK = 1 << 18  # rows of an average block; their keys fit into the cache of a core


def sort_pairs(
    user: IntArray, item: IntArray, users: int, items: int, time: IntArray | None, block: int = _BLOCK
) -> tuple[IntArray, IntArray, IntArray]:
    """Distinct pairs sorted by user and item, and the row of each: the earliest one, or the first for equal times.

    Within a block the user, the item and the row are packed into one integer of 63 bits, because sorting integers is
    vectorised and many times faster than sorting indices. A block has a range of users that is small enough for that,
    so time and memory per row stay the same for every number of rows.

    Args:
        user: int32 [rows], below ``users``.
        item: int32 [rows], below ``items``.
        users: number of users.
        items: number of items. The item and the row must fit into 63 bits, which they do below 4 billion rows.
        time: int64 [rows], or None without timestamps.
        block: number of rows that an average block should have.
    """
    item_bits, row_bits = (max(size - 1, 1).bit_length() for size in (items, len(user)))
    wanted = max(users * block // max(len(user), 1), 1).bit_length() - 1
    user_bits = min(wanted, 63 - item_bits - row_bits)
    keys = np.empty(len(user), np.int64)
    ends = _distribute(user, item, user_bits, item_bits, row_bits, ((users - 1) >> user_bits) + 1, keys)
    found = np.empty(len(user), np.int32), np.empty(len(user), np.int32)
    times = np.empty(0, np.int64) if time is None else time
    distinct = start = 0
    for number, end in enumerate(ends.tolist()):
        keys[start:end].sort()
        distinct = _unpack(keys, start, end, number << user_bits, item_bits, row_bits, times, *found, distinct)
        start = end
    return found[0][:distinct], found[1][:distinct], keys[:distinct]


@numba.njit(cache=True, nogil=True)
def _distribute(user, item, user_bits, item_bits, row_bits, blocks, keys):  # type: ignore[no-untyped-def]
    # Return where each block ends. Rows stay in order within a block, although the keys do not need it.
    places = np.zeros(blocks + 1, np.int64)
    for row in range(user.shape[0]):
        places[(user[row] >> user_bits) + 1] += 1
    for number in range(blocks):
        places[number + 1] += places[number]
    user_mask = (np.int64(1) << user_bits) - 1
    for row in range(user.shape[0]):
        number = user[row] >> user_bits
        within = np.int64(user[row]) & user_mask
        keys[places[number]] = (((within << item_bits) | np.int64(item[row])) << row_bits) | row
        places[number] += 1
    return places[:blocks]


@numba.njit(cache=True, nogil=True)
def _unpack(keys, start, end, first_user, item_bits, row_bits, time, user, item, distinct):  # type: ignore[no-untyped-def]
    # The rows of distinct pairs overwrite the keys of earlier places.
    item_mask, row_mask = (np.int64(1) << item_bits) - 1, (np.int64(1) << row_bits) - 1
    timed = time.shape[0] > 0
    before = np.int64(-1)
    for place in range(start, end):
        pair, row = keys[place] >> row_bits, keys[place] & row_mask
        if pair != before:
            user[distinct] = first_user + (pair >> item_bits)
            item[distinct] = pair & item_mask
            keys[distinct] = row
            distinct += 1
            before = pair
        elif timed and time[row] < time[keys[distinct - 1]]:
            keys[distinct - 1] = row
    return distinct
