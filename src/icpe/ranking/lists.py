"""Recommendation lists in codes, and as a frame with ids."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from icpe import columns as col
from icpe.types import FloatArray, IntArray

_FEW = 400  # rows of a small request


@dataclass(frozen=True, eq=False)
class Lists:
    """One list per user, the best item first.

    Attributes:
        users: int32 [lists], user codes.
        items: int32 [lists, n], distinct item codes, padded with -1 where a list has fewer than n items.
        scores: float32 [lists, n]; -inf where the item is -1.
    """

    users: IntArray
    items: IntArray
    scores: FloatArray

    def __len__(self) -> int:
        return len(self.users)

    @classmethod
    def empty(cls, n: int) -> "Lists":
        """Return no lists, of length ``n``."""
        return cls(np.empty(0, np.int32), np.empty((0, n), np.int32), np.empty((0, n), np.float32))

    @classmethod
    def concatenated(cls, parts: Sequence["Lists"]) -> "Lists":
        """Return all lists of the parts, one part after the other. There is at least one part."""
        if len(parts) == 1:
            return parts[0]
        arrays = ([getattr(part, name) for part in parts] for name in ("users", "items", "scores"))
        return cls(*(np.concatenate(one) for one in arrays))

    def repeated(self, times: int) -> "Lists":
        """Return a single list several times, for users 0, 1, … who all get the same."""
        users = np.arange(times, dtype=np.int32)
        return Lists(users, np.tile(self.items, (times, 1)), np.tile(self.scores, (times, 1)))

    def to_frame(self, users: pl.Series, items: pl.Series) -> pl.DataFrame:
        """Frame ``user_id, item_id, score, rank`` of the lists, in their order. Ranks start at 1.

        Args:
            users: user ids by code, such as ``log.users``.
            items: item ids by code, such as ``log.items``.

        Example:
            >>> lists = Lists(np.array([1]), np.array([[0, -1]]), np.array([[0.5, -np.inf]], np.float32))
            >>> lists.to_frame(pl.Series(["ann", "bob"]), pl.Series(["ham", "jam"])).rows()
            [('bob', 'ham', 0.5, 1)]
        """
        lists, n = self.items.shape
        user, item, score = np.repeat(self.users, n), self.items.ravel(), self.scores.ravel()
        rank = np.tile(np.arange(1, n + 1, dtype=np.int32), lists)
        filled = item >= 0
        if not filled.all():
            user, item, score, rank = user[filled], item[filled], score[filled], rank[filled]
        columns = {col.USER: _take(users, user), col.ITEM: _take(items, item), col.SCORE: score, col.RANK: rank}
        return pl.DataFrame(columns)


def _take(ids: pl.Series, codes: IntArray) -> pl.Series:
    """Ids of the codes. A few of them are taken without waking up the threads of polars."""
    if len(codes) > _FEW or ids.n_chunks() > 1:
        return ids.gather(codes)
    if ids.dtype == pl.String:
        return pl.Series(ids.name, [ids[code] for code in codes.tolist()], pl.String)
    return pl.Series(ids.name, ids.to_numpy()[codes], ids.dtype)
