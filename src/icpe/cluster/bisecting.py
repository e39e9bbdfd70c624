"""Clusters of items: bisecting by popularity discrepancy, and plain k-means as its ablation."""

from heapq import heappop, heappush
from itertools import count

import numpy as np

from icpe.cluster._arrays import Array, check_clusters, check_length, return_as, to_generator, to_numpy
from icpe.cluster.kmeans import k_means
from icpe.errors import DataError
from icpe.types import BoolArray, FloatArray, IntArray

_TRIES = 3  # 2-means of one cluster, each from new starts, before it is left whole


def popularity_clusters(features: Array, propensity: Array, clusters: int, rng: int | np.random.Generator) -> Array:
    """Labels int32 [items] of at most ``clusters`` groups, numbered by descending mean propensity (paper, Alg. 1).

    The cluster N in which the propensity varies most is split by 2-means on its features. The halves are kept if one
    of them differs at least as much from the rest as the whole did, max(D(c₁), D(c₂)) ≥ D(N), where
    D(N) = |mean of the propensity inside N − mean outside N| and D(all items) = 0; else two more tries with other
    starts follow, and then N is final. It ends when there are enough clusters or all are final.

    Departures from the paper: it gives no D for all items (I2) and as printed never ends after a refusal (I3). A
    cluster is final, too, if its items do not differ in propensity, or not in features: there is nothing to tell apart.
    So fewer clusters than asked for come out where fewer kinds of items go in; a constant propensity gives one.

    Args:
        features: [items, F] what 2-means sees, array or tensor; ``propensity_features`` makes good ones.
        propensity: [items] how much each item is favoured: S^g, better its ``gaussian_rank``.
        clusters: the largest number of clusters, at least 1.
        rng: seed or generator. The same seed gives the same labels, whatever the number of threads.

    Raises:
        ConfigError: ``clusters`` or the seed is out of range.
        DataError: a value is not finite, or the shapes do not fit.

    Example:
        >>> from icpe.cluster import gaussian_rank, propensity_features
        >>> counts = np.array([900, 1, 30, 2, 800, 25, 1, 2])
        >>> ranks = gaussian_rank(np.log(counts))
        >>> popularity_clusters(propensity_features(np.zeros((8, 0)), ranks), ranks, clusters=2, rng=0).tolist()
        [0, 1, 0, 1, 0, 1, 1, 1]
    """
    points, values = _checked(features, propensity, "propensity")
    wanted, generator = check_clusters(clusters), to_generator(rng)
    labels, numbers = np.zeros(len(points), np.int64), count(1)
    # Negative variance, so that the largest comes first; of equal ones the older cluster.
    heap = [(-_variance(values), 0)]
    final = 0
    while heap and len(heap) + final < wanted:
        negative, label = heappop(heap)
        members = np.flatnonzero(labels == label)
        halves = _bisect(points, values, members, generator) if negative < 0 else None
        if halves is None:
            final += 1
            continue
        for half in halves:
            labels[half] = number = next(numbers)
            heappush(heap, (-_variance(values[half]), number))
    return return_as(_number(labels, values), features)


def plain_clusters(features: Array, clusters: int, rng: int | np.random.Generator, order_by: Array) -> Array:
    """Labels int32 [items] of k-means with ``clusters`` centres, numbered by descending mean of ``order_by``.

    What remains of ``popularity_clusters`` without popularity discrepancy: an ablation. k-means++, the best of four
    starts; fewer clusters where there are fewer distinct rows of features, or a centre loses all its items to others.

    Args:
        features: [items, F], array or tensor.
        clusters: number of clusters, at least 1.
        rng: seed or generator.
        order_by: [items], say the propensity; used for the numbers of the clusters only.

    Raises:
        ConfigError: ``clusters`` or the seed is out of range.
        DataError: a value is not finite, or the shapes do not fit.

    Example:
        >>> features = np.array([[0.0], [5.0], [0.1], [9.0], [5.1]])
        >>> plain_clusters(features, clusters=3, rng=0, order_by=np.array([2, 9, 2, 5, 9])).tolist()
        [2, 0, 2, 1, 0]
    """
    points, values = _checked(features, order_by, "order_by")
    labels = k_means(points, check_clusters(clusters), to_generator(rng))
    return return_as(_number(labels, values), features)


def _checked(features: Array, per_item: Array, name: str) -> tuple[FloatArray, FloatArray]:
    points, values = to_numpy(features, "features", "items, F"), to_numpy(per_item, name, "items")
    check_length(values, name, len(points))
    if points.shape[1] == 0:
        raise DataError(f"features has shape {list(points.shape)}; expected at least one column per item")
    largest = np.abs(values).max()
    # Nothing here depends on the unit, and squares of values near 1 cannot overflow.
    return points, values / largest if largest > 0 else values


def _bisect(
    points: FloatArray, values: FloatArray, members: IntArray, rng: np.random.Generator
) -> tuple[IntArray, IntArray] | None:
    """Two halves of a cluster that the rule of acceptance lets pass, or None."""
    before = _discrepancy(values, members)
    for _ in range(_TRIES):
        second = k_means(points[members], 2, rng) == 1
        if not second.any():
            return None
        halves = members[~second], members[second]
        if max(_discrepancy(values, half) for half in halves) >= before:
            return halves
    return None


def _variance(values: FloatArray) -> float:
    """The variance, exactly 0 if all values are equal."""
    return float(values.var()) if np.ptp(values) > 0 else 0.0


def _discrepancy(values: FloatArray, members: IntArray) -> float:
    """D(N): how far the mean inside is from the mean outside, 0 if nothing is outside."""
    outside: BoolArray = np.ones(len(values), bool)
    outside[members] = False
    return abs(float(values[members].mean() - values[outside].mean())) if outside.any() else 0.0


def _number(labels: IntArray, values: FloatArray) -> IntArray:
    """The same clusters numbered by descending mean value, int32; of equal means the one with the first item leads."""
    _, first, place, sizes = np.unique(labels, return_index=True, return_inverse=True, return_counts=True)
    means = np.bincount(place, weights=values) / sizes
    number = np.empty(len(sizes), np.int32)
    number[np.lexsort((first, -means))] = np.arange(len(sizes), dtype=np.int32)
    return np.asarray(number[place])
