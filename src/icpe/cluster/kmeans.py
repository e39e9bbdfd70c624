"""Seeded k-means.

It was compared with scikit-learn 1.9 on 1,500 to 40,000 points × 9. There, sums depend on the number of threads, two
threads on busy cores were 10 to 100 times slower than one, and the dependency adds five packages and seconds of import
time. The loops here use neither BLAS nor threads.
"""

import numpy as np

from icpe.types import FloatArray, IntArray

_SAMPLE = 1 << 11  # number of points that suffices to place a few centres
_ROUNDS = 300  # scikit-learn's limit; usually a few rounds suffice


def k_means(points: FloatArray, clusters: int, rng: np.random.Generator, starts: int = 4) -> IntArray:
    """Labels int64 [items] from 0 without gaps: the best of several runs of Lloyd's algorithm from k-means++ starts.

    The number of clusters is smaller if fewer points are distinct. For many points, the centres are placed on a sample,
    and then each point is assigned to the nearest centre.

    Example:
        >>> k_means(np.array([[0.0], [9.0], [0.5], [9.5]]), 2, np.random.default_rng(0)).tolist()
        [0, 1, 0, 1]
    """
    columns = np.ascontiguousarray(_to_unit(points).T)
    seen = columns
    if columns.shape[1] > _SAMPLE:
        seen = np.ascontiguousarray(columns[:, np.sort(rng.choice(columns.shape[1], _SAMPLE, replace=False))])
    runs = [_lloyd(seen, _choose_centres(seen, clusters, rng)) for _ in range(starts)]
    centres, _ = min(runs, key=lambda run: run[1])
    best = _nearest(columns, centres)
    # Clusters are numbered by their first item, so that the numbers do not depend on which start was the best.
    _, first, place = np.unique(best, return_index=True, return_inverse=True)
    return np.asarray(np.argsort(np.argsort(first))[place])


def _to_unit(points: FloatArray) -> FloatArray:
    """Points centred and scaled to a size of about 1, so that squares neither overflow nor underflow."""
    largest = np.abs(points).max(initial=0.0)
    scaled = points / largest if largest > 0 else points
    centred: FloatArray = scaled - scaled.mean(axis=0)
    return centred


def _choose_centres(columns: FloatArray, clusters: int, rng: np.random.Generator) -> FloatArray:
    """Centres [F, up to clusters], points sampled in proportion to the squared distance to earlier centres."""
    size = columns.shape[1]
    chosen = [int(rng.random() * size)]
    nearest = _squared_distances(columns, columns[:, chosen[0]])
    while len(chosen) < clusters and nearest.max() > 0:
        heights = np.cumsum(nearest)
        drawn = int(np.searchsorted(heights, rng.random() * heights[-1], side="right"))
        # Rounding can select a position after the last point.
        chosen.append(drawn if drawn < size else int(nearest.argmax()))
        nearest = np.minimum(nearest, _squared_distances(columns, columns[:, chosen[-1]]))
    return np.ascontiguousarray(columns[:, chosen])


def _lloyd(columns: FloatArray, centres: FloatArray) -> tuple[FloatArray, float]:
    """Centres and the sum of squared distances after Lloyd's algorithm has converged."""
    from icpe.cluster.lloyd import settle_centres  # late: numba takes a while to import

    centres, labels, nearest = centres.copy(), np.zeros(columns.shape[1], np.int64), np.empty(columns.shape[1])
    settle_centres(columns, centres, labels, nearest, _ROUNDS)
    return centres, float(nearest.sum())


def _nearest(columns: FloatArray, centres: FloatArray) -> IntArray:
    """Label of the nearest centre of each point."""
    from icpe.cluster.lloyd import nearest_centre

    labels = np.zeros(columns.shape[1], np.int64)
    nearest_centre(columns, centres, labels, np.empty(columns.shape[1]))
    return labels


def _squared_distances(columns: FloatArray, centre: FloatArray) -> FloatArray:
    """Squared distances of all points to one centre, float64 [items]."""
    total = np.zeros(columns.shape[1])
    for column, middle in zip(columns, centre, strict=True):
        apart = column - middle
        apart *= apart
        total += apart
    return total
