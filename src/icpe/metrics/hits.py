"""Where lists meet the test set."""

from dataclasses import dataclass

import numpy as np

from icpe.data.interactions import Interactions
from icpe.types import BoolArray, IntArray


@dataclass(frozen=True, eq=False)
class Hits:
    """The relevant items found in some lists: all that metrics of accuracy need to know.

    Attributes:
        row: int64 [hits], the list of each hit, ascending.
        rank: int64 [hits], its place in the list from 1, ascending within a list.
        item: int32 [hits], its item code.
        relevant: int64 [lists], how many relevant items the user of each list has, found or not.
    """

    row: IntArray
    rank: IntArray
    item: IntArray
    relevant: IntArray

    @classmethod
    def find(cls, users: IntArray, items: IntArray, test: Interactions) -> "Hits":
        """The pairs of ``test`` in the lists ``items`` [lists, n] of ``users`` [lists]; -1 is no item.

        Example:
            >>> import polars as pl
            >>> frame = pl.DataFrame({"user_id": [7, 7, 8], "item_id": [1, 2, 2]})
            >>> hits = Hits.find(np.array([0, 1]), np.array([[1, 0], [0, -1]]), Interactions.read(frame))
            >>> hits.row.tolist(), hits.rank.tolist(), hits.relevant.tolist()
            ([0, 0], [1, 2], [2, 1])
        """
        # Pairs are sorted by user and item, so user · items + item is sorted too.
        size = len(test.items)
        keys = test.user.astype(np.int64) * size + test.item
        asked = users.astype(np.int64)[:, None] * size + items
        place = np.searchsorted(keys, asked.ravel()).reshape(asked.shape)
        found = (np.append(keys, -1)[place] == asked) & (items >= 0)
        row, column = np.nonzero(found)
        return cls(row, column + 1, items[row, column], test.user_counts[users])

    def among(self, mask: BoolArray, relevant: IntArray) -> "Hits":
        """The hits on the items of ``mask`` [items], of which each list's user has ``relevant`` [lists]."""
        chosen = mask[self.item]
        return Hits(self.row[chosen], self.rank[chosen], self.item[chosen], relevant)
