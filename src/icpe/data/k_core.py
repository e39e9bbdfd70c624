"""The k-core of a log: the largest part in which every user and every item has at least k pairs."""

import numpy as np

from icpe import kernels
from icpe.types import BoolArray, IntArray


def k_core_mask(user: IntArray, item: IntArray, k: int, users: int, items: int) -> BoolArray:
    """Mask [pairs] of the k-core: every remaining user and item has at least ``k`` remaining pairs."""
    if len(user) >= kernels.WORTH_COMPILING:
        from icpe.kernels.core import peel  # imported here because numba takes long to import

        return peel(user, item, k, users, items)
    keep = np.ones(len(user), bool)
    while True:
        user_counts = np.bincount(user[keep], minlength=users)
        item_counts = np.bincount(item[keep], minlength=items)
        still = keep & (user_counts[user] >= k) & (item_counts[item] >= k)
        if still.sum() == keep.sum():
            return keep
        keep = still


def largest_k(user: IntArray, item: IntArray, k: int, users: int, items: int) -> int:
    """The largest number below ``k`` whose core is not empty, found by bisection."""
    filled, empty = 1, k
    while empty - filled > 1:
        middle = (filled + empty) // 2
        if k_core_mask(user, item, middle, users, items).any():
            filled = middle
        else:
            empty = middle
    return filled
