"""Peeling a bipartite graph down to its k-core."""

from typing import cast

import numba
import numpy as np

from icpe.types import BoolArray, IntArray


def peel(user: IntArray, item: IntArray, k: int, users: int, items: int) -> BoolArray:
    """Mask of the rows whose user and item both keep at least ``k`` rows, iterated to the end."""
    return cast(BoolArray, _peel(user, item, k, users, items))


@numba.njit(cache=True, nogil=True)
def _peel(user, item, k, users, items):  # type: ignore[no-untyped-def]
    rows = user.shape[0]
    of_user = np.zeros(users, np.int64)
    of_item = np.zeros(items, np.int64)
    for row in range(rows):
        of_user[user[row]] += 1
        of_item[item[row]] += 1
    keep = np.ones(rows, np.bool_)
    # Counts fall while a pass runs, so that one pass removes what would otherwise take several.
    removed = 1
    while removed > 0:
        removed = 0
        for row in range(rows):
            if keep[row] and (of_user[user[row]] < k or of_item[item[row]] < k):
                keep[row] = False
                of_user[user[row]] -= 1
                of_item[item[row]] -= 1
                removed += 1
    return keep
