"""Sampling of random items, and lookup of the items that a user has used."""

import numpy as np

from icpe.data.interactions import Interactions
from icpe.kernels import WORTH_COMPILING
from icpe.types import BoolArray, IntArray, UIntArray


class SeenPairs:
    """The items that each user has used in training.

    Example:
        >>> from icpe.testing.logs import skewed_log
        >>> log = skewed_log(users=5, items=8, pairs=12)
        >>> bool(SeenPairs(log).contain(log.user, log.item).all())
        True
    """

    def __init__(self, train: Interactions) -> None:
        self._train = train
        self._starts = np.concatenate([[0], np.cumsum(train.user_counts)])
        self._keys = train.user.astype(np.int64) * len(train.items) + train.item

    def contain(self, users: IntArray, items: IntArray) -> BoolArray:
        """Return whether each pair is a training pair. The shapes are broadcast."""
        asked = users.astype(np.int64) * len(self._train.items) + items
        found = np.minimum(np.searchsorted(self._keys, asked), len(self._keys) - 1)
        inside: BoolArray = self._keys[found] == asked
        return inside

    def replace(self, users: IntArray, drawn: IntArray, keys: UIntArray) -> None:
        """Replace, in place, every drawn item that its user has used, until none is left.

        Args:
            users: int [rows].
            drawn: int32 [rows, count].
            keys: uint64 [rows, count], states of the random generators that replacements are drawn from.
        """
        reject_seen(self._train, self._starts, users, drawn, keys)


def uniform_items(keys: UIntArray, items: int) -> IntArray:
    """Return uniform item codes int32 from 64 random bits each, in the shape of ``keys``."""
    return (((keys >> np.uint64(32)) * np.uint64(items)) >> np.uint64(32)).astype(np.int32)


def reject_seen(train: Interactions, starts: IntArray, users: IntArray, drawn: IntArray, keys: UIntArray) -> None:
    """Replace, in place, every drawn item that its user has used, until none is left."""
    if len(train) * drawn.shape[-1] >= WORTH_COMPILING // 10:
        from icpe.kernels.negatives import reject_seen as compiled  # late: numba takes a while to import

        compiled(users, drawn, starts, train.item, len(train.items), keys)
        return
    seen = train.user.astype(np.int64) * len(train.items) + train.item
    rows, places = np.indices(drawn.shape).reshape(2, -1)
    while len(rows):
        asked = users[rows].astype(np.int64) * len(train.items) + drawn[rows, places]
        found = np.minimum(np.searchsorted(seen, asked), len(seen) - 1)
        again = seen[found] == asked
        rows, places = rows[again], places[again]
        keys[rows, places] += np.uint64(0x9E3779B97F4A7C15)
        drawn[rows, places] = uniform_items(_mix(keys[rows, places]), len(train.items))


def _mix(state: UIntArray) -> UIntArray:
    """Return the output of splitmix64 for each state, so that each position has its own stream."""
    mixed = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(mixed ^ (mixed >> np.uint64(31)))
