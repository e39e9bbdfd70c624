"""Exact top-n over all items, in chunks of users and tiles of items.

A full table of scores never exists: a chunk of users meets one tile of items after the other, and what is kept is
a list per user. The lists depend on the scores alone, not on how they were cut.
"""

from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np

from icpe.data.interactions import Interactions
from icpe.errors import ConfigError, DataError, IcpeError
from icpe.kernels import WORTH_COMPILING
from icpe.rank.lists import Lists
from icpe.types import BoolArray, FloatArray, IntArray

CHUNK = 512  # users: enough for a matrix product to run at full speed
TILE = 2048  # items: 512 × 2048 scores are 4 MB and are still in the cache when they are looked through
_COPIES = 4  # a model may need a few arrays of a block's size to compute it


class ScoreTable(Protocol):
    """Scores of all users for all items, computed where asked.

    Lists are the same bit for bit however the table is cut if a score does not depend on the block it is in.
    Matrix products of BLAS round differently in the last bit for blocks of different shape; lists from them may
    then differ where two scores agree to the last bit or two.
    """

    @property
    def users(self) -> int:
        """Number of users."""

    @property
    def items(self) -> int:
        """Number of items."""

    def block(self, users: IntArray, start: int, stop: int) -> FloatArray:
        """Scores float32 [len(users), stop - start] of the users with the items from ``start`` to ``stop`` - 1."""


def top_n(
    scores: ScoreTable,
    users: IntArray,
    n: int,
    hide: Sequence[Interactions] = (),
    allow: IntArray | None = None,
    memory_mb: int = 256,
) -> Lists:
    """The ``n`` items with the highest scores for each user, the best first.

    Of equal scores the smaller item code comes first. A score of -inf is never listed. Where fewer than ``n`` items
    are left, the list ends with item -1 and score -inf.

    Args:
        scores: the table.
        users: integers [lists], user codes in any order.
        n: length of the lists.
        hide: logs, in the codes of the table, whose pairs may not be listed: the training part, say.
        allow: item codes to which lists are restricted; None for all items.
        memory_mb: limit of the working memory, beside the lists themselves and what the table holds.

    Raises:
        IcpeError: a score is NaN.
        DataError: codes or logs do not fit the table.
        ConfigError: ``n`` or ``memory_mb`` is below 1.
    """
    chunks = list(stream_top_n(scores, users, n, hide, allow, memory_mb))
    if len(chunks) == 1:
        return chunks[0]
    empty = Lists(np.empty(0, np.int32), np.empty((0, n), np.int32), np.empty((0, n), np.float32))
    parts = chunks or [empty]
    return Lists(
        np.concatenate([part.users for part in parts]),
        np.concatenate([part.items for part in parts]),
        np.concatenate([part.scores for part in parts]),
    )


def stream_top_n(
    scores: ScoreTable,
    users: IntArray,
    n: int,
    hide: Sequence[Interactions] = (),
    allow: IntArray | None = None,
    memory_mb: int = 256,
) -> Iterator[Lists]:
    """The lists of :func:`top_n` by chunks of users, for writing the lists of everybody with bounded memory."""
    _check(scores, n, hide, memory_mb)
    users = _codes(users, scores.users, "user")
    allowed = None if allow is None else _mask(_codes(allow, scores.items, "item"), scores.items)
    small = len(users) * scores.items < WORTH_COMPILING
    return _stream(scores, users, n, hide, allowed, memory_mb << 20, small)


def _stream(
    scores: ScoreTable,
    users: IntArray,
    n: int,
    hide: Sequence[Interactions],
    allowed: BoolArray | None,
    memory: int,
    small: bool,
) -> Iterator[Lists]:
    width = scores.items if small else min(TILE, scores.items)
    chunk = max(1, min(CHUNK, memory // (4 * _COPIES * (width + n))))
    rank = _rank_plainly if small else _rank_by_tiles
    for begin in range(0, len(users), chunk):
        part = users[begin : begin + chunk]
        starts, hidden = _hidden_items(hide, part)
        items, values = rank(scores, part, n, starts, hidden, allowed)
        yield Lists(part, items, values)


def _rank_plainly(
    scores: ScoreTable, users: IntArray, n: int, starts: IntArray, hidden: IntArray, allowed: BoolArray | None
) -> tuple[IntArray, FloatArray]:
    """The twin of the compiled selection: sort everything."""
    values = np.full((len(users), scores.items), -np.inf, np.float32)
    for start, stop in _tiles(scores.items, allowed):
        values[:, start:stop] = scores.block(users, start, stop)
    if allowed is not None:
        values[:, ~allowed] = -np.inf
    wrong = np.argwhere(np.isnan(values))
    if len(wrong):
        raise _not_a_number(users, *wrong[0])
    values[np.repeat(np.arange(len(users)), np.diff(starts)), hidden] = -np.inf
    order = np.argsort(-values, axis=1, kind="stable")[:, :n]
    items, best = np.full((len(users), n), -1, np.int32), np.full((len(users), n), -np.inf, np.float32)
    best[:, : order.shape[1]] = np.take_along_axis(values, order, axis=1)
    items[:, : order.shape[1]] = order
    items[best == -np.inf] = -1
    return items, best


def _rank_by_tiles(
    scores: ScoreTable, users: IntArray, n: int, starts: IntArray, hidden: IntArray, allowed: BoolArray | None
) -> tuple[IntArray, FloatArray]:
    from icpe.kernels.select import Selection  # the compiler loads only where it is used

    selection = Selection(len(users), n, starts, hidden, allowed)
    for start, stop in _tiles(scores.items, allowed):
        wrong = selection.add(scores.block(users, start, stop), start)
        if wrong is not None:
            raise _not_a_number(users, *wrong)
    return selection.finish()


def _tiles(items: int, allowed: BoolArray | None) -> Iterator[tuple[int, int]]:
    """Start and stop of the tiles with at least one allowed item."""
    for start in range(0, items, TILE):
        stop = min(start + TILE, items)
        if allowed is None or allowed[start:stop].any():
            yield start, stop


def _hidden_items(hide: Sequence[Interactions], users: IntArray) -> tuple[IntArray, IntArray]:
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


def _check(scores: ScoreTable, n: int, hide: Sequence[Interactions], memory_mb: int) -> None:
    for name, value in (("n", n), ("memory_mb", memory_mb)):
        if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < 1:
            raise ConfigError(f"{name} is {value!r}; expected a whole number from 1 up")
    for log in hide:
        if (len(log.users), len(log.items)) != (scores.users, scores.items):
            raise DataError(
                f"a log to hide has {len(log.users):,} users and {len(log.items):,} items, the scores have "
                f"{scores.users:,} and {scores.items:,}; take parts of one split, which share their codes"
            )


def _codes(codes: IntArray, size: int, what: str) -> IntArray:
    codes = np.asarray(codes)
    if codes.size == 0:
        return np.empty(0, np.int32)
    if codes.ndim != 1 or not np.issubdtype(codes.dtype, np.integer):
        raise DataError(f"{what} codes must be integers in one row; found {codes.dtype} of shape {codes.shape}")
    if codes.min() < 0 or codes.max() >= size:
        raise DataError(f"{what} codes run from {codes.min()} to {codes.max()}; expected 0 to {size - 1}")
    return codes.astype(np.int32, copy=False)


def _mask(codes: IntArray, size: int) -> BoolArray:
    mask = np.zeros(size, np.bool_)
    mask[codes] = True
    return mask


def _not_a_number(users: IntArray, row: int, item: int) -> IcpeError:
    return IcpeError(
        f"the score of user {users[row]} for item {item} (codes) is NaN, so there is no ranking: the model has "
        "diverged. Train with a smaller learning rate, or go back to an earlier checkpoint"
    )
