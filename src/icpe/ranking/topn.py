"""Exact top-n over all items, in chunks of users and tiles of items.

The full table of scores is never held in memory: for each chunk of users, tiles of items are scored one after the
other, and only the best items are kept. Threads rank the chunks. The lists depend on the scores alone, neither on this
division nor on the number of threads.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from icpe.data.interactions import Interactions
from icpe.errors import ConfigError, DataError
from icpe.kernels import WORTH_COMPILING
from icpe.ranking.chunk import Blocks, Chunk, chunks_of, hidden_items
from icpe.ranking.exact import best_exactly, exact_of
from icpe.ranking.lists import Lists
from icpe.ranking.tables import ScoreTable, takes_users_singly
from icpe.threads import in_order
from icpe.types import BoolArray, IntArray

_SINGLY = 16  # users ranked together if their scores are computed one by one: more chunks keep all threads busy
_COPIES = 4  # a model may need a few arrays of the size of a block to compute it
_DEFAULT_BLOCKS = Blocks()


def top_n(
    scores: ScoreTable,
    users: IntArray,
    n: int,
    hide: Sequence[Interactions] = (),
    allow: IntArray | BoolArray | None = None,
    memory_mb: int = 256,
    blocks: Blocks = _DEFAULT_BLOCKS,
) -> Lists:
    """Lists of the ``n`` items with the highest scores for each user, the best first.

    Ties are broken by the smaller item code. Items with a score of -inf are never listed. A list with fewer than ``n``
    items is padded with item -1 and score -inf.

    Args:
        scores: table of scores.
        users: integers [lists], user codes in any order.
        n: length of the lists.
        hide: logs in the codes of the table whose pairs must not be listed, for example the training part.
        allow: item codes to which the lists are restricted, or a mask, bool [items]; None for all items.
        memory_mb: limit of the working memory of all threads, in addition to the lists and the table.
        blocks: how the work is divided. It does not change the lists.

    Raises:
        IcpeError: a score is NaN.
        DataError: codes or logs do not match the table.
        ConfigError: ``n`` or ``memory_mb`` is below 1.
    """
    parts = list(stream_top_n(scores, users, n, hide, allow, memory_mb, blocks))
    return Lists.concatenated(parts or [Lists.empty(n)])


def stream_top_n(
    scores: ScoreTable,
    users: IntArray,
    n: int,
    hide: Sequence[Interactions] = (),
    allow: IntArray | BoolArray | None = None,
    memory_mb: int = 256,
    blocks: Blocks = _DEFAULT_BLOCKS,
) -> Iterator[Lists]:
    """Yield the lists of :func:`top_n` in chunks of users, so that the lists of all users fit in bounded memory."""
    _check(scores, n, hide, memory_mb)
    users = _codes(users, scores.users, "user")
    allowed = None if allow is None else _mask(allow, scores.items)
    if blocks.compiled is None:
        blocks = replace(blocks, compiled=len(users) * scores.items >= WORTH_COMPILING)
    return _stream(scores, users, n, hide, allowed, memory_mb << 20, blocks)


def _stream(
    scores: ScoreTable,
    users: IntArray,
    n: int,
    hide: Sequence[Interactions],
    allowed: BoolArray | None,
    memory: int,
    blocks: Blocks,
) -> Iterator[Lists]:
    compiled = bool(blocks.compiled)
    width = min(blocks.items, scores.items) if compiled else scores.items
    of_user = 4 * _COPIES * (width + n)  # bytes
    together = min(blocks.users, _SINGLY) if takes_users_singly(scores) else blocks.users
    size = max(1, min(together, len(users), memory // of_user))
    exact = exact_of(scores, compiled)

    def lists(part: IntArray) -> Lists:
        chunk = Chunk(part, *hidden_items(hide, part), allowed, compiled, blocks.items)
        return Lists(part, *(chunk.best(scores, n) if exact is None else best_exactly(chunk, scores, exact, n)))

    return in_order(lists, chunks_of(users, size), most=max(1, memory // (of_user * size)))


def _check(scores: ScoreTable, n: int, hide: Sequence[Interactions], memory_mb: int) -> None:
    for name, value in (("n", n), ("memory_mb", memory_mb)):
        if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < 1:
            raise ConfigError(f"{name} is {value!r}; expected an integer of at least 1")
    for log in hide:
        if (len(log.users), len(log.items)) != (scores.users, scores.items):
            raise DataError(
                f"a log to hide has {len(log.users):,} users and {len(log.items):,} items, but the scores have "
                f"{scores.users:,} and {scores.items:,}; expected equal numbers. Use parts of the same split"
            )


def _codes(codes: IntArray, size: int, what: str) -> IntArray:
    codes = np.asarray(codes)
    if codes.size == 0:
        return np.empty(0, np.int32)
    if codes.ndim != 1 or not np.issubdtype(codes.dtype, np.integer):
        raise DataError(f"{what} codes must be a vector of integers; found {codes.dtype} of shape {codes.shape}")
    if codes.min() < 0 or codes.max() >= size:
        raise DataError(f"{what} codes run from {codes.min()} to {codes.max()}; expected 0 to {size - 1}")
    return codes.astype(np.int32, copy=False)


def _mask(allow: IntArray | BoolArray, size: int) -> BoolArray:
    mask: BoolArray = np.zeros(size, np.bool_)
    if allow.dtype == np.bool_ and allow.shape != mask.shape:
        raise DataError(f"the mask of allowed items has the shape {allow.shape}; expected {mask.shape}")
    mask[allow if allow.dtype == np.bool_ else _codes(np.asarray(allow), size, "item")] = True
    return mask
