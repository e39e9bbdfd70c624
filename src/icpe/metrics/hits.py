"""Relevant items found in lists."""

from dataclasses import dataclass

import numpy as np

from icpe.data.interactions import Interactions
from icpe.types import BoolArray, IntArray


@dataclass(frozen=True, eq=False)
class Hits:
    """Relevant items found in a set of lists. The accuracy metrics need nothing else.

    Attributes:
        row: int64 [hits], row of the list that contains the hit, ascending.
        rank: int64 [hits], position in the list, starting at 1, ascending within a list.
        item: int32 [hits], item code.
        relevant: int64 [lists], number of relevant items of each user, whether found or not.
    """

    row: IntArray
    rank: IntArray
    item: IntArray
    relevant: IntArray

    @classmethod
    def find(cls, users: IntArray, items: IntArray, test: Interactions) -> "Hits":
        """Find the pairs of ``test`` in the lists ``items`` [lists, n] of ``users`` [lists]. Code -1 is ignored.

        Example:
            >>> import polars as pl
            >>> frame = pl.DataFrame({"user_id": [7, 7, 8], "item_id": [1, 2, 2]})
            >>> hits = Hits.find(np.array([0, 1]), np.array([[1, 0], [0, -1]]), Interactions.read(frame))
            >>> hits.row.tolist(), hits.rank.tolist(), hits.relevant.tolist()
            ([0, 0], [1, 2], [2, 1])
        """
        # Pairs are sorted by user and item, so the keys user · items + item are sorted, too.
        size = len(test.items)
        keys = test.user.astype(np.int64) * size + test.item
        asked = users.astype(np.int64)[:, None] * size + items
        place = np.searchsorted(keys, asked.ravel()).reshape(asked.shape)
        found = (np.append(keys, -1)[place] == asked) & (items >= 0)
        row, column = np.nonzero(found)
        return cls(row, column + 1, items[row, column], test.user_counts[users])

    def among(self, mask: BoolArray, relevant: IntArray) -> "Hits":
        """Hits on the items of ``mask`` [items]. ``relevant`` [lists] counts each user's relevant items among them."""
        chosen = mask[self.item]
        return Hits(self.row[chosen], self.rank[chosen], self.item[chosen], relevant)


def hit_mask(users: IntArray, items: IntArray, test: Interactions) -> BoolArray:
    """Mask of the listed items that are pairs of ``test``, bool with the shape of ``items`` [..., lists, n].

    Unlike :meth:`Hits.find`, it takes the lists of many settings at once, and its memory grows with lists × items.

    Example:
        >>> import polars as pl
        >>> log = Interactions.read(pl.DataFrame({"user_id": [7, 7, 8], "item_id": [1, 2, 2]}))
        >>> hit_mask(np.array([0, 1]), np.array([[[1, 0], [0, -1]]]), log).tolist()
        [[[True, True], [False, False]]]
    """
    wanted = np.zeros((len(users), len(test.items) + 1), bool)  # the last column belongs to code -1
    first, last = (np.searchsorted(test.user, users.astype(test.user.dtype), side) for side in ("left", "right"))
    counts = last - first
    place = np.arange(counts.sum()) + np.repeat(first - np.cumsum(counts) + counts, counts)
    wanted[np.repeat(np.arange(len(users)), counts), test.item[place]] = True
    return np.asarray(wanted[np.arange(len(users))[:, None], items])
