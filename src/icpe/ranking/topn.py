"""Exact top-n over all items, in chunks of users and tiles of items.

A full table of scores never exists: a chunk of users meets one tile of items after the other, and what is kept is
a list per user. The lists depend on the scores alone, not on how they were cut.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from icpe.data.interactions import Interactions
from icpe.errors import ConfigError, DataError
from icpe.kernels import WORTH_COMPILING
from icpe.ranking.chunk import TILE, Chunk, hidden_items
from icpe.ranking.exact import best_exactly, exact_of
from icpe.ranking.lists import Lists
from icpe.ranking.tables import ScoreTable
from icpe.types import BoolArray, IntArray

CHUNK = 512  # users: enough for a matrix product to run at full speed
_COPIES = 4  # a model may need a few arrays of a block's size to compute it


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
    rows = max(1, min(CHUNK, memory // (4 * _COPIES * (width + n))))
    exact = exact_of(scores, compiled=not small)
    for begin in range(0, len(users), rows):
        part = users[begin : begin + rows]
        chunk = Chunk(part, *hidden_items(hide, part), allowed, compiled=not small)
        yield Lists(part, *(chunk.best(scores, n) if exact is None else best_exactly(chunk, scores, exact, n)))


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
