"""The growing log of one arm."""

import numpy as np

from icpe.data.interactions import Interactions
from icpe.data.lookup import contains
from icpe.simulate.population import Population
from icpe.types import BoolArray, FloatArray, IntArray


class History:
    """What the users of one arm have consumed: before the first round, and since.

    Attributes:
        counts: int64 [items], popularity in the arm's whole log.
        consumed: int64 [users], number of items consumed since the first round.
        shown: int64 [items], how often lists have shown each item since the first round.
        direction: float64 [users, traits], sum of the directions of the items consumed since the first round.
    """

    def __init__(self, population: Population) -> None:
        log = population.world.log
        self._population, self._items = population, np.int64(population.items)
        self._keys = np.sort(log.user * self._items + log.item)
        self._new = np.empty(0, np.int64)
        self.counts, self._before = log.item_counts.copy(), log.user_counts
        self.consumed = np.zeros(population.users, np.int64)
        self.shown = np.zeros(population.items, np.int64)
        self.direction = np.zeros((population.users, population.directions.shape[1]))

    def has(self, users: IntArray, items: IntArray) -> BoolArray:
        """Whether each user has the items of their row, [rows, k]."""
        return contains(self._keys, users[:, None] * self._items + items)

    def has_any(self) -> BoolArray:
        """Whether each user has anything, [users]."""
        return np.asarray(self._before + self.consumed > 0)

    def add(self, user: IntArray, item: IntArray, shown: IntArray) -> None:
        """Append the consumption of a round and what its lists have shown."""
        keys = user * self._items + item
        self._keys, self._new = _merged(self._keys, keys), _merged(self._new, keys)
        self.counts += np.bincount(item, minlength=len(self.counts))
        self.consumed += np.bincount(user, minlength=len(self.consumed))
        self.shown += shown
        np.add.at(self.direction, user, self._population.directions[item])

    def log(self, users: int, items: int) -> Interactions:
        """The log of the arm, with the first ``users`` users and ``items`` items only."""
        start = self._population.world.log
        user, item = (part.astype(np.int32) for part in np.divmod(self._keys, self._items))
        kept = (user < users) & (item < items)
        return Interactions(start.users.head(users), start.items.head(items), user[kept], item[kept])

    def jaccard(self, pairs: IntArray) -> FloatArray:
        """Jaccard index of what the two users of each pair have consumed since the first round, float64 [pairs].

        NaN if neither has consumed anything.
        """
        first, second = pairs.T
        ends = np.cumsum(self.consumed)
        sizes = self.consumed[first]
        row = np.repeat(np.arange(len(pairs)), sizes)
        within = np.arange(len(row)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        item = self._new[ends[first[row]] - sizes[row] + within] % self._items
        common = np.bincount(row, contains(self._new, second[row] * self._items + item), len(pairs))
        either = sizes + self.consumed[second] - common
        with np.errstate(invalid="ignore"):
            return np.asarray(common / np.where(either > 0, either, np.nan))


def _merged(ordered: IntArray, keys: IntArray) -> IntArray:
    return np.sort(np.concatenate([ordered, np.sort(keys)]), kind="stable")  # merges two sorted runs
