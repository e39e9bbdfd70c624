"""The canonical order of pairs: by user, then by item, each pair once."""

import numpy as np

from icpe import kernels
from icpe.types import BoolArray, IntArray

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
    if len(user) >= kernels.WORTH_COMPILING:
        from icpe.kernels.pairs import sort_pairs  # imported here because numba takes long to import

        return sort_pairs(user, item, users, items, time)
    order = _stable_order(user, item, users, items)
    user, item = user[order], item[order]
    first = np.ones(len(order), bool)
    first[1:] = (user[1:] != user[:-1]) | (item[1:] != item[:-1])
    rows = order[first] if time is None or first.all() else order[_earliest(time[order], first)]
    return user[first], item[first], rows


def _stable_order(user: IntArray, item: IntArray, users: int, items: int) -> IntArray:
    """The rows sorted by user and item; rows of equal pairs stay in their order."""
    user_bits, item_bits, row_bits = (max(size - 1, 1).bit_length() for size in (users, items, len(user)))
    if user_bits + item_bits + row_bits > 63:  # few rows with codes of many users and items
        return np.lexsort((item, user))
    # Sorting integers is vectorised and ten times faster than sorting indices.
    keys = ((user.astype(np.int64) << item_bits) | item) << row_bits | np.arange(len(user))
    keys.sort()
    return keys & ((1 << row_bits) - 1)


def _earliest(time: IntArray, first: BoolArray) -> IntArray:
    """For each group of equal pairs, which begins where ``first`` is true, the first place with the smallest time."""
    group = np.cumsum(first) - 1
    smallest = np.flatnonzero(time == np.minimum.reduceat(time, np.flatnonzero(first))[group])
    return smallest[np.diff(group[smallest], prepend=-1) > 0]
