"""The k-core of a log."""

import numpy as np

from icpe.kernels import WORTH_COMPILING
from icpe.types import BoolArray, IntArray


def core_mask(user: IntArray, item: IntArray, k: int, users: int, items: int) -> BoolArray:
    """Mask [pairs] of the k-core: every user and item left has at least ``k`` pairs among those left."""
    if len(user) >= WORTH_COMPILING:
        from icpe.kernels.core import peel  # late: numba takes a while to import

        return peel(user, item, k, users, items)
    keep = np.ones(len(user), bool)
    while True:
        of_user = np.bincount(user[keep], minlength=users)
        of_item = np.bincount(item[keep], minlength=items)
        still = keep & (of_user[user] >= k) & (of_item[item] >= k)
        if still.sum() == keep.sum():
            return keep
        keep = still


def largest_core(user: IntArray, item: IntArray, k: int, users: int, items: int) -> int:
    """The largest k below the given one whose core is not empty, by bisection."""
    filled, empty = 1, k
    while empty - filled > 1:
        middle = (filled + empty) // 2
        if core_mask(user, item, middle, users, items).any():
            filled = middle
        else:
            empty = middle
    return filled
