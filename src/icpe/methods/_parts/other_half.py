"""Pairs of a popular and an unpopular item of the same user."""

import numpy as np

from icpe.data.interactions import Interactions
from icpe.types import IntArray


class OtherHalf:
    """Samples, for a positive of a user, an item from the other half of the user's items by popularity.

    The less popular half of n items has ⌊n/2⌋ items. Together with uniform positives, all pairs of an item of one half
    and an item of the other half are equally likely. A user with one item has no other half; the item itself is then
    returned.

    Args:
        train: the training part.
    """

    def __init__(self, train: Interactions) -> None:
        by_popularity = np.lexsort((train.item, train.item_counts[train.item], train.user))
        self._items = train.item[by_popularity].astype(np.int64)
        self._starts = np.concatenate([[0], np.cumsum(train.user_counts)])[train.user]
        self._counts = train.user_counts[train.user]
        self._ranks = np.empty(len(train), np.int64)
        self._ranks[by_popularity] = np.arange(len(train)) - self._starts[by_popularity]

    def sample(self, rows: IntArray, rng: np.random.Generator) -> IntArray:
        """Return an item for each of these training pairs, int64 [batch].

        Args:
            rows: positions of the pairs in the training data, int64 [batch].
            rng: generator to draw from.
        """
        count, rank = self._counts[rows], self._ranks[rows]
        half = count // 2
        first = np.where(rank < half, half, 0)
        size = np.where(rank < half, count - half, half)
        drawn = first + (rng.random(len(rows)) * size).astype(np.int64)
        return np.asarray(self._items[self._starts[rows] + np.where(size == 0, rank, drawn)])
