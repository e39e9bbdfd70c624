"""Accuracy of each list: how many relevant items it contains, and how high it ranks them.

Every function takes :class:`~icpe.metrics.hits.Hits` and the list length ``n`` and returns float64 [lists]. The value
is NaN for a user without relevant items, because no list could be right or wrong. In the formulas, T is the set of
relevant items of the user and L_1, …, L_n the list; [·] is 1 if true, else 0. The examples share two lists: the first
has hits at ranks 1 and 3 and its user has 4 relevant items, the second has no hit and its user has 1 relevant item.
"""

import numpy as np

from icpe.metrics.hits import Hits
from icpe.types import FloatArray, IntArray


def recall(hits: Hits, n: int) -> FloatArray:
    """Share of the relevant items that are in the list: Σ_{r≤n} [L_r ∈ T] / |T|.

    Example:
        >>> recall(_example(), 3).tolist()
        [0.5, 0.0]
    """
    return _where_relevant(_count(hits, n) / np.maximum(hits.relevant, 1), hits)


def precision(hits: Hits, n: int) -> FloatArray:
    """Share of the n positions with a relevant item: Σ_{r≤n} [L_r ∈ T] / n. Empty positions count as misses.

    Example:
        >>> precision(_example(), 2).tolist()
        [0.5, 0.0]
    """
    return _where_relevant(_count(hits, n) / n, hits)


def hit_rate(hits: Hits, n: int) -> FloatArray:
    """1 if the list contains a relevant item, else 0.

    Example:
        >>> hit_rate(_example(), 3).tolist()
        [1.0, 0.0]
    """
    return _where_relevant((_count(hits, n) > 0).astype(np.float64), hits)


def mrr(hits: Hits, n: int) -> FloatArray:
    """Reciprocal rank of the first relevant item: 1 / min{r ≤ n: L_r ∈ T}, or 0 without a hit.

    Example:
        >>> mrr(_example(), 3).tolist()
        [1.0, 0.0]
    """
    values = np.zeros(len(hits.relevant))
    first = np.flatnonzero(np.diff(hits.row, prepend=-1))
    first = first[hits.rank[first] <= n]
    values[hits.row[first]] = 1 / hits.rank[first]
    return _where_relevant(values, hits)


def ndcg(hits: Hits, n: int) -> FloatArray:
    """Discounted cumulative gain divided by that of an ideal list, DCG / IDCG. Each relevant item has a gain of 1.

    DCG = Σ_{r≤n} [L_r ∈ T] / log2(r + 1); IDCG = Σ_{r ≤ min(n, |T|)} 1 / log2(r + 1).

    Example:
        >>> ndcg(_example(), 3).round(4).tolist()
        [0.7039, 0.0]
    """
    discount = 1 / np.log2(np.arange(2, n + 2))
    ideal = np.cumsum(discount)[np.clip(hits.relevant, 1, n) - 1]
    within = hits.rank <= n
    gain = np.bincount(hits.row[within], weights=discount[hits.rank[within] - 1], minlength=len(hits.relevant))
    return _where_relevant(gain / ideal, hits)


def average(values: FloatArray) -> float:
    """Mean of the values that are not NaN, that is, over the users with relevant items. NaN without such users.

    Example:
        >>> average(np.array([0.5, np.nan, 0.0]))
        0.25
    """
    counted = values[~np.isnan(values)]
    return float(counted.mean()) if len(counted) else float("nan")


def _count(hits: Hits, n: int) -> IntArray:
    return np.bincount(hits.row[hits.rank <= n], minlength=len(hits.relevant))


def _where_relevant(values: FloatArray, hits: Hits) -> FloatArray:
    return np.where(hits.relevant > 0, values, np.nan)


def _example() -> Hits:
    return Hits(row=np.array([0, 0]), rank=np.array([1, 3]), item=np.array([5, 2]), relevant=np.array([4, 1]))
