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
