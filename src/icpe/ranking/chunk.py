"""Ranking of a group of users by the score blocks of a table."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from icpe.data.interactions import Interactions
from icpe.errors import IcpeError
from icpe.ranking.partial import best_of_rows
from icpe.ranking.tables import DotScores, ScoreTable
from icpe.types import BoolArray, FloatArray, IntArray

_TILE_SCORES = 1 << 20  # 512 users × 2048 items


@dataclass(frozen=True)
class Blocks:
    """How ranking divides its work. The lists do not depend on it.

    Attributes:
        users: largest number of users ranked together. 512 are enough for a matrix product to run at full speed. Tables
            without a product for all users together are ranked in smaller groups.
        items: number of items scored at a time. 512 users × 2048 scores are 4 MB, which stay in the cache until the
            best ones are selected.
        compiled: whether to select with the compiled loop or with NumPy. None uses the compiled loop for large
            problems only, because compiling takes a few seconds.
    """

    users: int = 512
    items: int = 2048
    compiled: bool | None = None


@dataclass(frozen=True, eq=False)
class Chunk:
    """Group of users that are ranked together.

    Attributes:
        users: int32 [rows], user codes.
        starts: int64 [rows + 1], where each user's hidden items begin and end in ``hidden``.
        hidden: int32 [pairs], item codes, ascending for each user. They may repeat.
        allowed: bool [items], mask of the items that may be listed, or None for all items.
        compiled: whether to select with the compiled loop or with NumPy.
        tile: number of items scored at a time.
    """

    users: IntArray
    starts: IntArray
    hidden: IntArray
    allowed: BoolArray | None
    compiled: bool
    tile: int = 2048

    def best(self, scores: ScoreTable, n: int) -> tuple[IntArray, FloatArray]:
        """Items int32 [rows, n] and scores float32 [rows, n], the best first, padded with -1 and -inf.

        Raises:
            IcpeError: a score is NaN.
        """
        return self._by_tiles(scores, n) if self.compiled else self._at_once(scores, n)

    def subset(self, rows: IntArray) -> "Chunk":
        """Chunk of the users in these rows."""
        counts = np.diff(self.starts)
        kept = np.zeros(len(self.users), np.bool_)
        kept[rows] = True
        starts = np.concatenate([[0], np.cumsum(counts[rows])])
        return replace(self, users=self.users[rows], starts=starts, hidden=self.hidden[np.repeat(kept, counts)])

    def _by_tiles(self, scores: ScoreTable, n: int) -> tuple[IntArray, FloatArray]:
        from icpe.kernels.select import Selection  # late: numba takes a while to import

        selection = Selection(len(self.users), n, self.starts, self.hidden, self.allowed)
        tiles = list(self._tiles(scores.items))
        one_by_one = (scores.block(self.users, *tile) for tile in tiles)
        blocks = scores.blocks(self.users, tiles) if isinstance(scores, DotScores) else one_by_one
        for (start, _), block in zip(tiles, blocks, strict=True):
            wrong = selection.add(block, start)
            if wrong is not None:
                raise not_a_number(self.users, *wrong)
        return selection.finish()

    def _at_once(self, scores: ScoreTable, n: int) -> tuple[IntArray, FloatArray]:
        """Equivalent of the compiled selection in NumPy: all scores of the users are in memory together."""
        rows = len(self.users)
        values = np.full((rows, scores.items), -np.inf, np.float32)
        # Few users get wider tiles, because each tile costs some microseconds beyond its scores.
        wider = replace(self, tile=self.tile * max(1, _TILE_SCORES // (rows * self.tile)))
        for start, stop in wider._tiles(scores.items):
            values[:, start:stop] = scores.block(self.users, start, stop)
        if self.allowed is not None:
            values[:, ~self.allowed] = -np.inf
        if np.isnan(values).any():
            raise not_a_number(self.users, *np.argwhere(np.isnan(values))[0])
        values[np.repeat(np.arange(rows), np.diff(self.starts)), self.hidden] = -np.inf
        return best_of_rows(values, n)

    def _tiles(self, items: int) -> Iterator[tuple[int, int]]:
        """Start and stop of each tile with at least one allowed item."""
        for start in range(0, items, self.tile):
            stop = min(start + self.tile, items)
            if self.allowed is None or self.allowed[start:stop].any():
                yield start, stop


def chunks_of(users: IntArray, size: int) -> list[IntArray]:
    """Return the users in groups of ``size``, and the rest. The division does not depend on the number of threads."""
    return [users[begin : begin + size] for begin in range(0, len(users), size)]


def hidden_items(hide: Sequence[Interactions], users: IntArray) -> tuple[IntArray, IntArray]:
    """Boundaries of each user's hidden items, int64 [users + 1], and the items, ascending for each user."""
    rows, items = [np.empty(0, np.int64)], [np.empty(0, np.int32)]
    for log in hide:
        # Pairs are sorted by user, so a binary search replaces an index of all users.
        first, last = (np.searchsorted(log.user, users.astype(log.user.dtype), side) for side in ("left", "right"))
        counts = last - first
        ends = np.cumsum(counts)
        place = np.arange(counts.sum()) + np.repeat(first - ends + counts, counts)
        rows.append(np.repeat(np.arange(len(users)), counts))
        items.append(log.item[place])
    row, item = np.concatenate(rows), np.concatenate(items)
    if len(hide) > 1:
        order = np.lexsort((item, row))
        item = item[order]
    starts = np.zeros(len(users) + 1, np.int64)
    np.cumsum(np.bincount(row, minlength=len(users)), out=starts[1:])
    return starts, item


def not_a_number(users: IntArray, row: int, item: int) -> IcpeError:
    """Return the error for a score that is not a number."""
    return IcpeError(
        f"the score of user {users[row]} for item {item} (codes) is NaN, so items cannot be ranked. The model has "
        "diverged: train with a smaller learning rate, or go back to an earlier checkpoint"
    )
