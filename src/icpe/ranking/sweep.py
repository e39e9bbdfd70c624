"""Exact top-n for many settings of an item bias at once.

Ranking by ``score + t·direction`` for each of many settings ``t`` needs the scores only once, and computing them takes
most of the time of a ranking.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from icpe.data.interactions import Interactions
from icpe.kernels import WORTH_COMPILING
from icpe.ranking.chunk import Chunk, chunks_of, hidden_items, not_a_number
from icpe.ranking.exact import best_exactly, exact_of
from icpe.ranking.tables import DotScores, ScoreTable, with_bias
from icpe.threads import in_order
from icpe.types import FloatArray, IntArray

_SCORES = 1 << 23  # scores of a chunk of users: 32 MB
_CHUNKS = 16  # chunks in memory, each in another thread
_SMALL = 1e15  # vectors without larger numbers have products without overflow, hence without NaN
_OF_A_SIZE = 16  # neighbouring groups of items that have the same size


@dataclass(frozen=True, eq=False)
class SweptLists:
    """Lists of some users for each setting.

    Attributes:
        users: int32 [lists], user codes.
        items: int32 [settings, lists, n], item codes, the best first; -1 where a list is shorter than n.
    """

    users: IntArray
    items: IntArray


def item_bias(direction: FloatArray, setting: float) -> FloatArray:
    """Return the bias that a setting adds to the scores of the items, float32 [items]."""
    return (float(setting) * direction.astype(np.float64)).astype(np.float32)


def worth_compiling(users: int, items: int, settings: int) -> bool:
    """Return whether a sweep is so large that :func:`sweep_top_n` uses the compiled loop."""
    return users * items * settings >= WORTH_COMPILING


def users_at_once(items: int) -> int:
    """Return the number of users in a chunk of :func:`sweep_top_n`."""
    return max(1, min(512, _SCORES // items))


def sweep_top_n(
    scores: ScoreTable,
    users: IntArray,
    n: int,
    direction: FloatArray,
    settings: Sequence[float] | FloatArray,
    hide: Sequence[Interactions] = (),
    compiled: bool | None = None,
) -> Iterator[SweptLists]:
    """Return the lists of each setting, one chunk of users after the other.

    The lists of a setting are those of :func:`~icpe.ranking.topn.top_n` for ``with_bias(scores, item_bias(direction,
    setting))``.

    Args:
        scores: table of scores.
        users: user codes, int [lists].
        n: length of the lists.
        direction: one number per item, [items].
        settings: multiples of the direction.
        hide: logs whose pairs must not be listed.
        compiled: whether to use the compiled loop. None uses it for large problems only.
    """
    multiples = np.asarray(settings, np.float64)
    if compiled is None:
        compiled = worth_compiling(len(users), scores.items, len(multiples))
    sweep = _Compiled(scores, direction, n) if compiled else _Sorted(scores, direction, n)

    def lists(part: IntArray) -> SweptLists:
        chunk = Chunk(part, *hidden_items(hide, part), None, compiled)
        return SweptLists(part, sweep.lists(chunk, multiples))

    return in_order(lists, chunks_of(users, users_at_once(scores.items)), most=_CHUNKS)


class _Sorted:
    """Reference implementation: each setting is ranked separately."""

    def __init__(self, scores: ScoreTable, direction: FloatArray, n: int) -> None:
        self._scores, self._direction, self._n = scores, direction, n

    def lists(self, chunk: Chunk, settings: FloatArray) -> IntArray:
        """Return the items int32 [settings, rows, n]."""
        found = []
        for setting in settings:
            table = with_bias(self._scores, item_bias(self._direction, setting))
            exact = exact_of(table, compiled=False)
            best = chunk.best(table, self._n) if exact is None else best_exactly(chunk, table, exact, self._n)
            found.append(best[0])
        return np.stack(found)


class _Compiled:
    """The scores are computed once, on items in the order of their direction."""

    def __init__(self, scores: ScoreTable, direction: FloatArray, n: int) -> None:
        self._scores, self._n = scores, n
        self._order = np.argsort(direction, kind="stable").astype(np.int32)
        self._column = np.empty(len(direction), np.int64)
        self._column[self._order] = np.arange(len(direction))
        self._direction = direction[self._order].astype(np.float64)
        self._edges = _edges(len(direction), n)
        self._exact = exact_of(scores, compiled=True)
        self._sorted: DotScores | None = None
        if isinstance(scores, DotScores):
            bias = None if scores.item_bias is None else scores.item_bias[self._order]
            self._sorted = scores.changed(item_vectors=scores.item_vectors[self._order], item_bias=bias)
        self._safe = isinstance(scores, DotScores) and _are_small(scores)

    def lists(self, chunk: Chunk, settings: FloatArray) -> IntArray:
        """Return the items int32 [settings, rows, n].

        Raises:
            IcpeError: a score is NaN.
        """
        from icpe.kernels.sweep import sweep  # late: numba takes a while to import

        if self._sorted is not None:
            block = self._sorted.block(chunk.users, 0, self._sorted.items)
        else:
            block = self._scores.block(chunk.users, 0, self._scores.items)[:, self._order]
        rows = np.repeat(np.arange(len(chunk.users)), np.diff(chunk.starts))
        block[rows, self._column[chunk.hidden]] = -np.inf
        products = self._products(chunk)
        found, wrong = sweep(block, self._order, self._edges, self._direction, settings, self._n, products, self._safe)
        if wrong is not None:
            raise not_a_number(chunk.users, wrong, int(self._order[np.argmax(np.isnan(block[wrong]))]))
        return found.transpose(1, 0, 2)

    def _products(self, chunk: Chunk) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray] | None:
        """Return what the exact scores of the users need, or None for scores that are used as they are."""
        table = self._sorted
        if self._exact is None or table is None or not isinstance(self._scores, DotScores):
            return None
        bias = np.zeros(len(self._order), np.float32) if table.item_bias is None else table.item_bias
        users = np.ascontiguousarray(table.user_vectors[chunk.users])
        return users, np.ascontiguousarray(self._scores.item_vectors), bias, self._exact.margin(chunk.users)


def _are_small(scores: DotScores) -> bool:
    """Whether all numbers behind the scores are finite and so small that no score can be NaN."""
    arrays = (scores.user_vectors, scores.item_vectors, *(() if scores.item_bias is None else (scores.item_bias,)))
    return all(bool((np.abs(one) < _SMALL).all()) for one in arrays)


def _edges(items: int, n: int) -> IntArray:
    """Return where the groups of items begin that the kernel treats together, and the number of items.

    The lists of large settings consist of items with extreme directions, so the groups are small at both ends and grow
    towards the middle. There are many more groups than list positions, because each shows one good item.
    """
    sizes = np.repeat(2 ** np.arange(40), max(_OF_A_SIZE, n))
    half = np.concatenate([[0], np.cumsum(sizes)])
    half = half[half < items // 2]
    return np.unique(np.concatenate([[0, items // 2, items], half, items - half]))
