"""Pareto dominance and hypervolume of points with two objectives."""

from collections.abc import Mapping

import numpy as np

from icpe.types import BoolArray, FloatArray


def dominated(points: FloatArray) -> BoolArray:
    """Mask of the points that another point dominates: at least as large in both objectives and larger in one.

    Args:
        points: [points, 2], larger is better. Negate losses.

    Example:
        >>> dominated(np.array([[1.0, 3.0], [2.0, 2.0], [1.0, 2.0], [2.0, 2.0]])).tolist()
        [False, False, True, False]
    """
    as_good = (points[:, None] >= points[None]).all(axis=2)
    better = (points[:, None] > points[None]).any(axis=2)
    return np.asarray((as_good & better).any(axis=0))


def hypervolume(points: FloatArray, reference: FloatArray) -> float:
    """Area that the points dominate above the reference point, computed exactly by a sweep along the first axis.

    Args:
        points: [points, 2], larger is better. Negate losses.
        reference: [2], the worst value of each objective. Points that are not above it in both add nothing.

    Example:
        >>> hypervolume(np.array([[1.0, 3.0], [2.0, 2.0], [1.0, 1.0]]), np.zeros(2))
        5.0
    """
    spans = np.asarray(points, np.float64).reshape(-1, 2) - np.asarray(reference, np.float64)
    spans = spans[(spans > 0).all(axis=1)]
    area, height = 0.0, 0.0
    for width, tall in spans[np.lexsort((-spans[:, 1], -spans[:, 0]))]:
        area += width * max(tall - height, 0.0)
        height = max(height, tall)
    return float(area)


def hypervolumes(fronts: Mapping[str, FloatArray]) -> dict[str, float]:
    """:func:`hypervolume` of each front. The reference point has the worst value of each objective over all fronts."""
    worst = np.concatenate(list(fronts.values())).min(axis=0)
    return {name: hypervolume(points, worst) for name, points in fronts.items()}
