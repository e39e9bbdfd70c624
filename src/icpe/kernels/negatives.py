"""Rejection of sampled negatives that are positives of their user."""

import numba
import numpy as np

from icpe.threads import run_parts, stretches
from icpe.types import IntArray, UIntArray


def reject_seen(
    users: IntArray, drawn: IntArray, starts: IntArray, seen: IntArray, items: int, more: UIntArray
) -> IntArray:
    """Replace sampled items that are training items of their user, in place, until none is left.

    Args:
        users: int32 [rows].
        drawn: int32 [rows, draws], samples that are uniform over all items.
        starts: int64 [users + 1], where each user's items begin in ``seen``.
        seen: int32 [pairs], training items, sorted within each user.
        items: number of items.
        more: uint64 [rows, draws], state of a separate generator for each position.
    """
    shared = (users, drawn, starts, seen, np.uint64(items), more)
    run_parts(_reject_seen, [(*shared, *part) for part in stretches(len(drawn))])
    return drawn


@numba.njit(cache=True, nogil=True)
def _reject_seen(users, drawn, starts, seen, items, more, first_row, last_row):  # type: ignore[no-untyped-def]
    for row in range(first_row, last_row):
        first, last = starts[users[row]], starts[users[row] + 1]
        for draw in range(drawn.shape[1]):
            state = more[row, draw]
            while True:
                low, high = first, last
                while low < high:
                    middle = (low + high) >> 1
                    if seen[middle] < drawn[row, draw]:
                        low = middle + 1
                    else:
                        high = middle
                if low == last or seen[low] != drawn[row, draw]:
                    break
                # splitmix64: each position has its own stream, so that the order of the work does not matter
                state += np.uint64(0x9E3779B97F4A7C15)
                mixed = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
                mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
                mixed ^= mixed >> np.uint64(31)
                drawn[row, draw] = np.int32(((mixed >> np.uint64(32)) * items) >> np.uint64(32))
