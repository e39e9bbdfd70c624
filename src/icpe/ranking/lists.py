"""Recommendation lists in codes."""

from dataclasses import dataclass

import numpy as np
import polars as pl

from icpe import columns as col
from icpe.data.interactions import Interactions
from icpe.types import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Lists:
    """One list per user, the best item first.

    Attributes:
        users: int32 [lists], user codes.
        items: int32 [lists, n], distinct item codes; -1 at the end where fewer than n items were left.
        scores: float32 [lists, n]; -inf where the item is -1.
    """

    users: IntArray
    items: IntArray
    scores: FloatArray

    def __len__(self) -> int:
        return len(self.users)

    def to_frame(self, log: Interactions) -> pl.DataFrame:
        """The lists with the ids of ``log``: ``user_id, item_id, score, rank``, ranks from 1.

        Example:
            >>> log = Interactions.read(pl.DataFrame({"user_id": ["ann", "bob"], "item_id": ["ham", "jam"]}))
            >>> lists = Lists(np.array([1]), np.array([[0, -1]]), np.array([[0.5, -np.inf]], np.float32))
            >>> lists.to_frame(log).rows()
            [('bob', 'ham', 0.5, 1)]
        """
        row, place = np.nonzero(self.items >= 0)
        return pl.DataFrame(
            {
                col.USER: log.users.gather(self.users[row]),
                col.ITEM: log.items.gather(self.items[row, place]),
                col.SCORE: self.scores[row, place],
                col.RANK: (place + 1).astype(np.int32),
            }
        )
