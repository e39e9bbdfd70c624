"""The best items of some users, by the blocks of a table."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from icpe.data.interactions import Interactions
from icpe.errors import IcpeError
from icpe.ranking.tables import ScoreTable
from icpe.types import BoolArray, FloatArray, IntArray

TILE = 2048  # items: 512 users × 2048 scores are 4 MB and are still in the cache when they are looked through


@dataclass(frozen=True, eq=False)
class Chunk:
    """Users that are ranked together.

    Attributes:
        users: int32 [rows], codes.
        starts: int64 [rows + 1], where each user's hidden items begin and end in ``hidden``.
        hidden: int32 [pairs], item codes, ascending for each user; may repeat.
        allowed: bool [items], or None where all items are.
        compiled: whether to select by the compiled loop or by sorting everything.
    """

    users: IntArray
    starts: IntArray
    hidden: IntArray
    allowed: BoolArray | None
    compiled: bool

    def best(self, scores: ScoreTable, n: int) -> tuple[IntArray, FloatArray]:
        """Items int32 [rows, n] and scores float32 [rows, n], the best first; -1 and -inf where nothing is left.

        Raises:
            IcpeError: a score is NaN.
        """
        return self._by_tiles(scores, n) if self.compiled else self._plainly(scores, n)

    def only(self, rows: IntArray) -> "Chunk":
        """Some of the users."""
        counts = np.diff(self.starts)
        kept = np.zeros(len(self.users), np.bool_)
        kept[rows] = True
        starts = np.concatenate([[0], np.cumsum(counts[rows])])
        return replace(self, users=self.users[rows], starts=starts, hidden=self.hidden[np.repeat(kept, counts)])

    def _by_tiles(self, scores: ScoreTable, n: int) -> tuple[IntArray, FloatArray]:
        from icpe.kernels.select import Selection  # the compiler loads only where it is used

        selection = Selection(len(self.users), n, self.starts, self.hidden, self.allowed)
        for start, stop in self._tiles(scores.items):
            wrong = selection.add(scores.block(self.users, start, stop), start)
            if wrong is not None:
                raise _not_a_number(self.users, *wrong)
        return selection.finish()

    def _plainly(self, scores: ScoreTable, n: int) -> tuple[IntArray, FloatArray]:
        """The twin of the compiled selection: sort everything."""
        rows = len(self.users)
        values = np.full((rows, scores.items), -np.inf, np.float32)
        for start, stop in self._tiles(scores.items):
            values[:, start:stop] = scores.block(self.users, start, stop)
        if self.allowed is not None:
            values[:, ~self.allowed] = -np.inf
        wrong = np.argwhere(np.isnan(values))
        if len(wrong):
            raise _not_a_number(self.users, *wrong[0])
        values[np.repeat(np.arange(rows), np.diff(self.starts)), self.hidden] = -np.inf
        order = np.argsort(-values, axis=1, kind="stable")[:, :n]
        items, best = np.full((rows, n), -1, np.int32), np.full((rows, n), -np.inf, np.float32)
        best[:, : order.shape[1]] = np.take_along_axis(values, order, axis=1)
        items[:, : order.shape[1]] = order
        items[best == -np.inf] = -1
        return items, best

    def _tiles(self, items: int) -> Iterator[tuple[int, int]]:
        """Start and stop of the tiles with at least one allowed item."""
        for start in range(0, items, TILE):
            stop = min(start + TILE, items)
            if self.allowed is None or self.allowed[start:stop].any():
                yield start, stop


def hidden_items(hide: Sequence[Interactions], users: IntArray) -> tuple[IntArray, IntArray]:
    """Where each user's hidden items begin and end, int64 [users + 1], and the items, ascending for each user."""
    rows, items = [np.empty(0, np.int64)], [np.empty(0, np.int32)]
    for log in hide:
        # Pairs are sorted by user, so a search needs no index of all users.
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


def _not_a_number(users: IntArray, row: int, item: int) -> IcpeError:
    return IcpeError(
        f"the score of user {users[row]} for item {item} (codes) is NaN, so there is no ranking: the model has "
        "diverged. Train with a smaller learning rate, or go back to an earlier checkpoint"
    )
