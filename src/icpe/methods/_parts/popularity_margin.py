"""Negatives that are clearly more or clearly less popular than their positive."""

import numpy as np

from icpe.data.interactions import Interactions
from icpe.types import BoolArray, IntArray


class PopularityMarginSampler:
    """Samples items that are clearly more, or clearly less, popular than a positive.

    With n the training counts and R_u the items that the user has used, a positive (u, i) and a margin μ have the
    candidates P = {j ∉ R_u: n_j > n_i + μ} and L = {j ∉ R_u: n_j < n_i/2}. If P is too small, all negatives come from
    L; otherwise, if L is too small, all come from P; otherwise each comes from either with probability ½. Negatives are
    uniform within a set and differ from each other. If L is needed but has fewer items than there are negatives, the
    given negatives are kept.

    Args:
        train: the training part.
        min_candidates: smallest size of a set (ρ); at least the number of negatives in any case.
    """

    def __init__(self, train: Interactions, min_candidates: int) -> None:
        self._min_candidates, self._items = min_candidates, len(train.items)
        self._counts, self._user_counts = train.item_counts, train.user_counts
        self._order = np.argsort(self._counts, kind="stable")  # from the least to the most popular item
        self._sorted = self._counts[self._order].astype(np.float64)
        positions = np.empty_like(self._order)
        positions[self._order] = np.arange(self._items)
        self._starts = np.concatenate([[0], np.cumsum(self._user_counts)])
        # Positions of each user's items in that order, user after user, and the number of unused items before each.
        self._used = np.sort(train.user.astype(np.int64) * self._items + positions[train.item])
        self._unused_before = self._used - (np.arange(len(train)) - self._starts[train.user])

    def sample(
        self, users: IntArray, items: IntArray, given: IntArray, margin: float, rng: np.random.Generator
    ) -> tuple[IntArray, BoolArray]:
        """Return negatives, int64 [batch, K], and whether each one is more popular than its positive, bool [batch, K].

        Args:
            users: int64 [batch].
            items: the positives, int64 [batch].
            given: unused items that are kept where the sets are too small, int64 [batch, K]. Such an item counts as
                more popular if its count exceeds that of the positive, however little.
            margin: μ.
            rng: generator to draw from.
        """
        counts, unused = self._counts[items], self._items - self._user_counts[users]
        less = self._unused_below(users, np.searchsorted(self._sorted, counts / 2))
        more = unused - self._unused_below(users, np.searchsorted(self._sorted, counts + margin, side="right"))
        enough = max(self._min_candidates, given.shape[1])
        few_more, few_less = more < enough, less < enough
        popular = rng.random(given.shape) < 0.5
        popular &= ~few_more[:, None]
        popular |= (~few_more & few_less)[:, None]
        kept = few_more & (less < given.shape[1])
        # A user's unused items are numbered in the order of popularity: L is the first of them, P the last.
        start = np.where(popular, (unused - more)[:, None], 0)
        sizes = np.where(popular, more[:, None], less[:, None])
        numbers = _without_repetition(start, sizes, ~kept, rng)
        negatives = self._order[self._unused_positions(users, numbers)]
        negatives[kept] = given[kept]
        popular[kept] = (self._counts[given] > counts[:, None])[kept]
        return negatives, popular

    def _unused_below(self, users: IntArray, positions: IntArray) -> IntArray:
        """Return the number of unused items before a position in the order of popularity, [batch]."""
        used = np.searchsorted(self._used, users * self._items + positions) - self._starts[users]
        found: IntArray = positions - used
        return found

    def _unused_positions(self, users: IntArray, numbers: IntArray) -> IntArray:
        """Return the positions in the order of popularity of the unused items with these numbers, [batch, K]."""
        asked = (users * self._items)[:, None] + numbers
        used = np.searchsorted(self._unused_before, asked, side="right") - self._starts[users][:, None]
        found: IntArray = numbers + used
        return found


def _without_repetition(start: IntArray, sizes: IntArray, wanted: BoolArray, rng: np.random.Generator) -> IntArray:
    """Return uniform numbers from start to start + size − 1, [rows, K]; they differ within each wanted row."""
    numbers: IntArray = start + (rng.random(sizes.shape) * sizes).astype(np.int64)
    earlier = np.tri(sizes.shape[1], k=-1, dtype=bool)
    rows = np.flatnonzero(wanted)
    while len(rows):
        ordered = np.sort(numbers[rows], axis=1)
        rows = rows[(ordered[:, 1:] == ordered[:, :-1]).any(1)]
        repeated = ((numbers[rows, :, None] == numbers[rows, None, :]) & earlier).any(2)
        fresh = start[rows] + (rng.random(repeated.shape) * sizes[rows]).astype(np.int64)
        numbers[rows] = np.where(repeated, fresh, numbers[rows])
    return numbers
