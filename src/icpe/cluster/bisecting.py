"""Clusters of items: bisecting by popularity discrepancy, and plain k-means as its ablation."""

from heapq import heappop, heappush
from itertools import count

import numpy as np

from icpe.arrays import Array, return_as
from icpe.cluster._checks import check_clusters, check_finite, check_length, to_generator
from icpe.cluster.kmeans import k_means
from icpe.errors import DataError
from icpe.types import BoolArray, FloatArray, IntArray

_TRIES = 3  # attempts of 2-means on one cluster, from different starts, before it stays as it is


def popularity_clusters(features: Array, propensity: Array, clusters: int, rng: int | np.random.Generator) -> Array:
    """Labels int32 [items] of at most ``clusters`` groups, numbered by descending mean propensity (paper, Alg. 1).

    The cluster N with the largest variance of the propensity is split by 2-means on its features. The halves are kept
    if one of them differs from the rest at least as much as the whole cluster did, max(D(c₁), D(c₂)) ≥ D(N), where D(N)
    is the distance between the mean propensities inside and outside of N, and D(all items) = 0. Otherwise two more
    attempts with other starts follow, and then N is final. The algorithm ends when the number of clusters is reached or
    all are final.

    Departures from the paper: it does not define D for all items (I2), and as printed it does not end after a rejected
    split (I3). A cluster is also final if its items have equal propensities or equal features. The number of clusters
    can be smaller than requested when items are indistinguishable; a constant propensity gives one cluster.

    Args:
        features: [items, F], features for 2-means, array or tensor; ``propensity_features`` computes suitable ones.
        propensity: [items], how much each item is favoured: S^g, or better its ``gaussian_rank``.
        clusters: largest number of clusters, at least 1.
        rng: seed or generator. The same seed gives the same labels with any number of threads.

    Raises:
        ConfigError: ``clusters`` or the seed is out of range.
        DataError: a value is not finite, or the shapes do not match.

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
    # Negative variances, so that the largest comes first. Ties are broken by the older cluster.
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

    It is the ablation of ``popularity_clusters`` without popularity discrepancy: k-means++, the best of four starts.
    The number of clusters is smaller if the features have fewer distinct rows or a centre loses all its items.

    Args:
        features: [items, F], array or tensor.
        clusters: number of clusters, at least 1.
        rng: seed or generator.
        order_by: [items], for example the propensity. It only determines the numbers of the clusters.

    Raises:
        ConfigError: ``clusters`` or the seed is out of range.
        DataError: a value is not finite, or the shapes do not match.

    Example:
        >>> features = np.array([[0.0], [5.0], [0.1], [9.0], [5.1]])
        >>> plain_clusters(features, clusters=3, rng=0, order_by=np.array([2, 9, 2, 5, 9])).tolist()
        [2, 0, 2, 1, 0]
    """
    points, values = _checked(features, order_by, "order_by")
    labels = k_means(points, check_clusters(clusters), to_generator(rng))
    return return_as(_number(labels, values), features)


def _checked(features: Array, per_item: Array, name: str) -> tuple[FloatArray, FloatArray]:
    points, values = check_finite(features, "features", "items, F"), check_finite(per_item, name, "items")
    check_length(values, name, len(points))
    if points.shape[1] == 0:
        raise DataError(f"features has shape {list(points.shape)}; expected at least one column per item")
    largest = np.abs(values).max()
    # The clusters do not depend on the scale, and squares of values near 1 cannot overflow.
    return points, values / largest if largest > 0 else values


def _bisect(
    points: FloatArray, values: FloatArray, members: IntArray, rng: np.random.Generator
) -> tuple[IntArray, IntArray] | None:
    """Two halves of a cluster that satisfy the acceptance rule, or None."""
    before = discrepancy(values, members)
    for _ in range(_TRIES):
        second = k_means(points[members], 2, rng) == 1
        if not second.any():
            return None
        halves = members[~second], members[second]
        if max(discrepancy(values, half) for half in halves) >= before:
            return halves
    return None


def _variance(values: FloatArray) -> float:
    """Variance, exactly 0 if all values are equal."""
    return float(values.var()) if np.ptp(values) > 0 else 0.0


def discrepancy(values: FloatArray, members: IntArray) -> float:
    """D(N): distance between the means inside and outside a cluster, or 0 if no item is outside."""
    outside: BoolArray = np.ones(len(values), bool)
    outside[members] = False
    return abs(float(values[members].mean() - values[outside].mean())) if outside.any() else 0.0


def _number(labels: IntArray, values: FloatArray) -> IntArray:
    """Labels int32 renumbered by descending mean value. Ties are broken by the first item."""
    _, first, place, sizes = np.unique(labels, return_index=True, return_inverse=True, return_counts=True)
    means = np.bincount(place, weights=values) / sizes
    number = np.empty(len(sizes), np.int32)
    number[np.lexsort((first, -means))] = np.arange(len(sizes), dtype=np.int32)
    return np.asarray(number[place])
