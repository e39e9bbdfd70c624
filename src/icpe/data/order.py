"""The one order in which pairs are kept: by user, then by item, each pair once."""

import numpy as np

from icpe.types import BoolArray, IntArray


def order_pairs(
    user: IntArray, item: IntArray, users: int, items: int, time: IntArray | None
) -> tuple[IntArray, IntArray, IntArray]:
    """Sort pairs by user and item; of equal pairs only the earliest stays, or the first row where times are equal.

    Args:
        user: int32 [rows] codes below ``users``.
        item: int32 [rows] codes below ``items``.
        users: number of users.
        items: number of items.
        time: int64 [rows] or None.

    Returns:
        int32 [pairs] users, int32 [pairs] items, and int64 [pairs] the rows they come from.
    """
    rows = len(user)
    user_bits, item_bits, row_bits = (max(size - 1, 1).bit_length() for size in (users, items, rows))
    if user_bits + item_bits + row_bits > 63:
        order = np.lexsort((item, user))
        user, item = user[order], item[order]
        fresh = np.ones(rows, bool)
        fresh[1:] = (user[1:] != user[:-1]) | (item[1:] != item[:-1])
    else:
        # User, item and row in one integer: a plain sort, which is vectorised, gives a stable order several times
        # faster than sorting indices.
        packed = user.astype(np.int64)
        packed <<= item_bits
        packed |= item
        packed <<= row_bits
        packed |= np.arange(rows)
        packed.sort()
        order = packed & ((1 << row_bits) - 1)
        packed >>= row_bits
        fresh = np.ones(rows, bool)
        np.not_equal(packed[1:], packed[:-1], out=fresh[1:])
        item = (packed & ((1 << item_bits) - 1)).astype(np.int32)
        packed >>= item_bits
        user = packed.astype(np.int32)
    if fresh.all():
        return user, item, order
    if time is not None:
        _earliest_first(order, fresh, time)
    return user[fresh], item[fresh], order[fresh]


def _earliest_first(order: IntArray, fresh: BoolArray, time: IntArray) -> None:
    """Reorder the rows of each repeated pair by time, in place; pairs that occur once are not touched."""
    repeated = ~fresh
    repeated[:-1] |= repeated[1:]  # the first of a run belongs to it
    places = np.flatnonzero(repeated)
    rows = order[places]
    order[places] = rows[np.lexsort((rows, time[rows], np.cumsum(fresh[places])))]
