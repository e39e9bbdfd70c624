"""Seeded k-means.

scikit-learn's was weighed against it (1.9, 1,500 to 40,000 points × 9): its sums depend on the number of threads, with
two threads on busy cores it was 10 to 100 times slower than with one, and it would bring five packages and seconds of
import. The loops here call neither BLAS nor threads.
"""

import numpy as np

from icpe.types import FloatArray, IntArray

_SAMPLE = 1 << 11  # points that are enough to place a few centres
_ROUNDS = 300  # scikit-learn's limit; a handful are needed


def k_means(points: FloatArray, clusters: int, rng: np.random.Generator, starts: int = 4) -> IntArray:
    """Labels int64 [items] from 0 without gaps: the cheapest of several runs of Lloyd's algorithm from k-means++.

    There are fewer clusters where there are fewer distinct points. Of many points a sample decides where the centres
    lie, and then all go to the nearest.

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
    # Numbered by first item, so that the numbers do not depend on which start has won.
    _, first, place = np.unique(best, return_index=True, return_inverse=True)
    return np.asarray(np.argsort(np.argsort(first))[place])


def _to_unit(points: FloatArray) -> FloatArray:
    """Centred points of size about 1: squares neither overflow nor vanish, and the clusters stay the same."""
    largest = np.abs(points).max(initial=0.0)
    scaled = points / largest if largest > 0 else points
    centred: FloatArray = scaled - scaled.mean(axis=0)
    return centred


def _choose_centres(columns: FloatArray, clusters: int, rng: np.random.Generator) -> FloatArray:
    """Centres [F, up to clusters], each a point, drawn in proportion to the squared distance to those before it."""
    size = columns.shape[1]
    chosen = [int(rng.random() * size)]
    nearest = _squared_distances(columns, columns[:, chosen[0]])
    while len(chosen) < clusters and nearest.max() > 0:
        heights = np.cumsum(nearest)
        drawn = int(np.searchsorted(heights, rng.random() * heights[-1], side="right"))
        # Rounding may reach the very end, past the last point that has any weight.
        chosen.append(drawn if drawn < size else int(nearest.argmax()))
        nearest = np.minimum(nearest, _squared_distances(columns, columns[:, chosen[-1]]))
    return np.ascontiguousarray(columns[:, chosen])


def _lloyd(columns: FloatArray, centres: FloatArray) -> tuple[FloatArray, float]:
    """Centres and the sum of squared distances after centres and labels have come to rest."""
    from icpe.cluster._centres import settle_centres  # late: numba takes a while to import

    centres, labels, nearest = centres.copy(), np.zeros(columns.shape[1], np.int64), np.empty(columns.shape[1])
    settle_centres(columns, centres, labels, nearest, _ROUNDS)
    return centres, float(nearest.sum())


def _nearest(columns: FloatArray, centres: FloatArray) -> IntArray:
    """The nearest centre of each point."""
    from icpe.cluster._centres import nearest_centre

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
