"""Inner products of cluster gradients on the rows of users."""

import math
from collections.abc import Sequence

import numba
import numpy as np

from icpe import threads
from icpe.kernels.prefetch import prefetch_row
from icpe.threads import run_parts
from icpe.types import FloatArray, IntArray

_USERS = 512  # users at a time, whose scores stay in the cache
_AHEAD = 8  # pairs whose item rows are prefetched


@numba.njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"}, inline="always")
def _add_products(sums, gram):  # type: ignore[no-untyped-def]
    for one in range(sums.shape[0]):
        for other in range(one, sums.shape[0]):
            left, right = sums[one], sums[other]
            product = left.dtype.type(0)
            for d in range(left.shape[0]):
                product += left[d] * right[d]
            gram[one, other] += product


@numba.njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"})
def _gram_bce(starts, items, labels, users, table, offset, scale, gram):  # type: ignore[no-untyped-def]
    clusters, dim = gram.shape[0], table.shape[1]
    sums, last = np.empty((clusters, dim), table.dtype), items.shape[0] - 1
    for user in range(starts.shape[0] - 1):
        sums[:] = 0
        mine = users[user]
        for place in range(starts[user], starts[user + 1]):
            item = items[place]
            prefetch_row(table, items[min(place + _AHEAD, last)])
            row, total = table[item], sums[labels[item]]
            product = table.dtype.type(0)
            for d in range(dim):
                product += mine[d] * row[d]
            factor = -scale / (1.0 + math.exp(scale * product + offset[item]))
            for d in range(dim):
                total[d] += factor * row[d]
        _add_products(sums, gram)


@numba.njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"})
def _gram_softmax(starts, items, labels, users, lengths, table, offset, scale, centre, others, gram):  # type: ignore[no-untyped-def]
    clusters, dim = gram.shape[0], table.shape[1]
    sums, last = np.empty((clusters, dim), table.dtype), items.shape[0] - 1
    for user in range(starts.shape[0] - 1):
        sums[:] = 0
        mine, middle = users[user], centre[user]
        for place in range(starts[user], starts[user + 1]):
            item = items[place]
            prefetch_row(table, items[min(place + _AHEAD, last)])
            row, total = table[item], sums[labels[item]]
            product = table.dtype.type(0)
            for d in range(dim):
                product += mine[d] * row[d]
            # 1 − p of the positive, with p = e^y / (e^y + Σ e^others)
            factor = scale / (1.0 + math.exp(scale * product + offset[item] - others[user]))
            for d in range(dim):
                total[d] += factor * (middle[d] - row[d])
        for cluster in range(clusters):  # gradient through the normalisation of the user's row
            total = sums[cluster]
            along = table.dtype.type(0)
            for d in range(dim):
                along += mine[d] * total[d]
            factor = 1 / lengths[user]
            for d in range(dim):
                total[d] = factor * (total[d] - along * mine[d])
        _add_products(sums, gram)


def gram_bce(
    starts: IntArray,
    items: IntArray,
    labels: IntArray,
    clusters: int,
    users: FloatArray,
    table: FloatArray,
    offset: FloatArray,
    scale: float,
    before: FloatArray | None = None,
) -> FloatArray:
    """Inner products of the clusters' gradients of Σ softplus(−(scale·⟨u, i⟩ + offset_i)) on the user rows.

    Args:
        starts: where each user's pairs begin, int64 [users + 1].
        items: int32 [pairs], item codes sorted by user.
        labels: cluster of each item, int [items].
        clusters: number of clusters (K).
        users: user rows, [users, dim].
        table: item rows, [items, dim].
        offset: offset of each item's logit, [items].
        scale: factor of the inner product.
        before: the result for earlier users, to which these are added.

    Returns:
        float64 [K, K].
    """
    factor = table.dtype.type(scale)

    def part(first: int, last: int) -> FloatArray:
        gram = np.zeros((clusters, clusters))
        _gram_bce(starts[first : last + 1], items, labels, users[first:last], table, offset, factor, gram)
        return gram

    return _whole(run_parts(part, _blocks(len(users))), clusters, before)


def _blocks(users: int) -> list[tuple[int, int]]:
    """Return ranges of users, whatever the number of threads; processes that share the users begin at such a range."""
    return [(first, min(first + _USERS, users)) for first in range(0, users, _USERS)]


def _whole(parts: Sequence[FloatArray], clusters: int, before: FloatArray | None) -> FloatArray:
    """Return the symmetric sum of upper triangles, added in their order to the result for earlier users."""
    gram = sum(parts, start=np.zeros((clusters, clusters)) if before is None else before)
    return np.triu(gram) + np.triu(gram, 1).T


def gram_softmax(
    starts: IntArray,
    items: IntArray,
    labels: IntArray,
    clusters: int,
    users: FloatArray,
    table: FloatArray,
    offset: FloatArray,
    scale: float,
    negatives: IntArray,
    before: FloatArray | None = None,
) -> FloatArray:
    """:func:`gram_bce` for Σ log(1 + Σ_n exp(y_un − y_ui)), y = scale·cos(u, i) + offset_i, n over ``negatives``.

    All positives of a user share the same negatives, so these are processed once per user.
    """
    lengths = np.maximum(np.linalg.norm(users, axis=1), 1e-12)
    users = users / lengths[:, None]
    table = table / np.maximum(np.linalg.norm(table, axis=1, keepdims=True), 1e-12)
    factor = table.dtype.type(scale)
    centre, others = np.empty_like(users), np.empty(len(users), table.dtype)
    rows, added = table[negatives], offset[negatives]
    sharp = factor * rows.T

    def negatives_of(first: int, last: int) -> None:
        part = slice(first, last)
        shares = users[part] @ sharp
        shares += added
        top = shares.max(axis=1, keepdims=True)
        shares -= top
        np.exp(shares, out=shares)
        total = shares.sum(axis=1, keepdims=True)
        np.matmul(shares, rows, out=centre[part])
        centre[part] /= total
        others[part] = (top + np.log(total))[:, 0]

    def part(first: int, last: int) -> FloatArray:
        gram, mine = np.zeros((clusters, clusters)), slice(first, last)
        of_users = users[mine], lengths[mine]
        _gram_softmax(
            starts[first : last + 1], items, labels, *of_users, table, offset, factor, centre[mine], others[mine], gram
        )
        return gram

    with threads.libraries_alone():
        run_parts(negatives_of, _blocks(len(users)))
    return _whole(run_parts(part, _blocks(len(users))), clusters, before)
