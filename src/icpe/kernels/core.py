"""k-core of a bipartite graph."""

import numba
import numpy as np

from icpe.types import BoolArray, IntArray


def peel(user: IntArray, item: IntArray, k: int, users: int, items: int) -> BoolArray:
    """Mask of the rows that remain after repeatedly removing users and items with fewer than ``k`` rows."""
    keep = np.ones(len(user), np.bool_)
    _peel(user, item, k, np.bincount(user, minlength=users), np.bincount(item, minlength=items), keep)
    return keep


@numba.njit(cache=True, nogil=True)
def _peel(user, item, k, of_user, of_item, keep):  # type: ignore[no-untyped-def]
    # Counts are updated during a pass, so that one pass removes what would otherwise take several.
    removed = 1
    while removed > 0:
        removed = 0
        for row in range(user.shape[0]):
            if keep[row] and (of_user[user[row]] < k or of_item[item[row]] < k):
                keep[row] = False
                of_user[user[row]] -= 1
                of_item[item[row]] -= 1
                removed += 1
