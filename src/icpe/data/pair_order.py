"""The canonical order of pairs: by user, then by item, each pair once."""

import numpy as np

from icpe import kernels
from icpe.types import IntArray


def order_pairs(
    user: IntArray, item: IntArray, users: int, items: int, time: IntArray | None
) -> tuple[IntArray, IntArray, IntArray]:
    """The distinct pairs, sorted by user and item.

    Of several equal pairs the earliest is kept; at equal times, or without times, the first row is kept.

    Args:
        user: int32 [rows] codes below ``users``.
        item: int32 [rows] codes below ``items``.
        users: number of users.
        items: number of items.
        time: int64 [rows] or None.

    Returns:
        int32 [pairs] users, int32 [pairs] items, and int64 [pairs] the rows they come from.
    """
    user_bits, item_bits, row_bits = (max(size - 1, 1).bit_length() for size in (users, items, len(user)))
    if user_bits + item_bits + row_bits <= 63 and len(user) >= kernels.WORTH_COMPILING:
        from icpe.kernels.pairs import sort_pairs  # imported here because numba takes long to import

        return sort_pairs(user, item, item_bits, row_bits, time)
    order = np.lexsort((item, user) if time is None else (time, item, user))
    user, item = user[order], item[order]
    first = np.ones(len(order), bool)
    first[1:] = (user[1:] != user[:-1]) | (item[1:] != item[:-1])
    return user[first], item[first], order[first]
