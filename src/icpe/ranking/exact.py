"""Reproducible scores for inner products, independent of block shapes and threads.

A matrix product rounds differently for blocks of another shape or with another number of threads. Therefore it only
proposes candidates, a few more than requested, and their scores are computed again in a fixed order of summation. A
bound on the rounding error decides whether an item that was not proposed could belong to the list.
"""

import numpy as np

from icpe.ranking.chunk import Chunk
from icpe.ranking.tables import DotScores, ScoreTable, squared_lengths
from icpe.types import FloatArray, IntArray

_UNIT = 2.0**-24  # unit roundoff of float32: half the distance from 1 to the next number
_AT_ONCE = 1 << 12  # pairs whose products are held in memory together: 2 MB with 64 dimensions
SPARE = 4  # additional candidates, so that rounding hardly ever leaves the end of a list undecided


class ExactProducts:
    """Table of inner products computed in a fixed order of summation and rounded once.

    Args:
        table: table with the vectors.
        compiled: whether to use the compiled loop. The NumPy loop returns the same bits.
    """

    def __init__(self, table: DotScores, compiled: bool) -> None:
        self._users, self._items = (np.ascontiguousarray(one) for one in (table.user_vectors, table.item_vectors))
        bias = table.item_bias
        self._bias = np.zeros(len(self._items), np.float32) if bias is None else np.ascontiguousarray(bias)
        self._compiled = compiled
        self.users, self.items = len(self._users), len(self._items)
        self._longest, self._highest = table.longest, table.highest

    def pairs(self, users: IntArray, codes: IntArray) -> FloatArray:
        """Scores float32 [len(users), m] of each user for its ``codes`` [len(users), m]; -inf where a code is -1."""
        rows, codes = self._users[users], np.ascontiguousarray(codes, np.int32)
        if self._compiled:
            from icpe.kernels.exact import products

            out = np.empty(codes.shape, np.float32)
            products(rows, self._items, self._bias, codes, out)
            return out
        total = np.empty(codes.size, np.float32)
        row = np.repeat(np.arange(len(rows)), codes.shape[1])
        flat = codes.ravel()
        for start in range(0, codes.size, _AT_ONCE):
            part = slice(start, start + _AT_ONCE)
            total[part] = _sums(rows[row[part]], self._items[flat[part]]) + self._bias[flat[part]]
        total[flat < 0] = -np.inf
        return total.reshape(codes.shape)

    def block(self, users: IntArray, start: int, stop: int) -> FloatArray:
        """Scores float32 [len(users), stop - start], equal to the blocks of the table up to rounding."""
        return self.pairs(users, np.broadcast_to(np.arange(start, stop), (len(users), stop - start)))

    def margin(self, users: IntArray) -> FloatArray:
        """Largest possible difference between a block's score and the exact score, float64 [len(users)].

        |fl(x·y) − x·y| ≤ γ Σ|x_d y_d| ≤ γ ‖x‖‖y‖ with γ = dim·u / (1 − dim·u) for any order of summation.
        Four more roundings account for adding the bias and for the final result.
        """
        size = np.sqrt(squared_lengths(self._users[users])) * self._longest + self._highest
        steps = (self._items.shape[1] + 4) * _UNIT
        return np.asarray(steps / (1 - steps) * size)


def _sums(first: FloatArray, second: FloatArray) -> FloatArray:
    """Inner products of rows [pairs, dim], float64 [pairs], in the order of :mod:`icpe.kernels.exact`."""
    products = np.zeros((len(first), -(-first.shape[1] // 4) * 4))
    with np.errstate(over="ignore", invalid="ignore"):
        np.multiply(first, second, out=products[:, : first.shape[1]], dtype=np.float64)
        # `accumulate` adds one row after the other; `sum` may choose another order.
        a, b, c, d = np.add.accumulate(products.reshape(len(first), -1, 4), axis=1)[:, -1].T
        return np.asarray((a + b) + (c + d))


def exact_of(scores: object, compiled: bool) -> ExactProducts | None:
    """Exact form of a table, or None if it holds no float32 inner products. Its blocks are then used as they are."""
    if not isinstance(scores, DotScores) or not scores.user_vectors.dtype == scores.item_vectors.dtype == np.float32:
        return None
    return ExactProducts(scores, compiled)


def best_exactly(chunk: Chunk, scores: ScoreTable, exact: ExactProducts, n: int) -> tuple[IntArray, FloatArray]:
    """Items int32 [rows, n] and exact scores float32 [rows, n], selected from candidates that blocks propose."""
    return choose_exactly(chunk, exact, *chunk.best(scores, n + SPARE), n)


def choose_exactly(
    chunk: Chunk, exact: ExactProducts, candidates: IntArray, rough: FloatArray, n: int
) -> tuple[IntArray, FloatArray]:
    """Items and exact scores [rows, n] from candidates [rows, n + SPARE] in the order of their rough scores."""
    fine = exact.pairs(chunk.users, candidates)
    order = np.lexsort((candidates, -fine), axis=1)[:, :n]
    items, values = np.take_along_axis(candidates, order, 1), np.take_along_axis(fine, order, 1)
    items[values == -np.inf] = -1
    # An item that was not proposed has at most the score of the worst candidate, up to rounding.
    sure = (values[:, -1] > rough[:, -1] + exact.margin(chunk.users)) | (rough[:, -1] == -np.inf)
    unsure = np.flatnonzero(~sure)
    if len(unsure):
        items[unsure], values[unsure] = chunk.subset(unsure).best(exact, n)
    return items, values
