"""The canonical order of pairs: by user, then by item, each pair once."""

import numpy as np

from icpe import kernels
from icpe.types import IntArray

_PIECE = 1 << 20  # pairs compared at a time, which bounds the memory


def in_order(user: IntArray, item: IntArray) -> bool:
    """Whether pairs are distinct and sorted by user and item, as those of a saved log. It takes one pass.

    Example:
        >>> in_order(np.array([0, 0, 1]), np.array([2, 5, 1])), in_order(np.array([0, 0]), np.array([5, 5]))
        (True, False)
    """
    for start in range(0, len(user), _PIECE):
        part = slice(start, start + _PIECE + 1)
        users, items = user[part], item[part]
        same = users[1:] == users[:-1]
        if not ((users[1:] > users[:-1]) | (same & (items[1:] > items[:-1]))).all():
            return False
    return True


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
