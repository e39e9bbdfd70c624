"""Features for clustering: ranks, features that contain the propensity, and quantiles of popularity."""

import numpy as np
import torch

from icpe.arrays import Array, return_as
from icpe.cluster._checks import check_clusters, check_finite, check_length
from icpe.errors import DataError
from icpe.types import FloatArray, IntArray


def gaussian_rank(values: Array) -> Array:
    """Normal scores g, float64 [items]: ranks mapped to quantiles of the normal distribution, with mean 0, variance 1.

    Equal values share the mean of their ranks. With r_i the rank of an item from 1 to n, g_i = Φ⁻¹((r_i − ½) / n),
    shifted and scaled to correct for ties. Only the order of the values matters, not the length of their tail. If all
    values are equal, all scores are 0.

    Args:
        values: [items], array or tensor; the result is of the same kind.

    Raises:
        DataError: a value is not finite, or the shape is not [items].

    Example:
        >>> gaussian_rank(np.array([3.0, 1000.0, 5.0])).round(2).tolist()
        [-1.22, 1.22, 0.0]
    """
    return return_as(normal_scores(check_finite(values, "values", "items")), values)


def propensity_features(code: Array, propensity: Array) -> Array:
    """Features [code ; 3·g] of items, float64 [items, F + 1], with g the Gaussian rank of the propensity (I4).

    The code alone stops following popularity after some epochs. A column with three times unit variance outweighs a
    code whose columns vary by about 1. Pass ``gaussian_rank(propensity)`` to ``popularity_clusters`` as its propensity:
    with uniform ranks, or with outliers in the propensity, its acceptance rule decides almost at random.

    Args:
        code: [items, F], other features of the items, such as the code of an autoencoder. F can be 0.
        propensity: [items], the propensity S^g or its Gaussian rank, which has the same order.

    Raises:
        DataError: a value is not finite, or the shapes do not match.

    Example:
        >>> propensity_features(np.array([[0.5], [0.1]]), np.array([1.0, 9.0])).round(2).tolist()
        [[0.5, -3.0], [0.1, 3.0]]
    """
    other, scores = check_finite(code, "code", "items, F"), check_finite(propensity, "propensity", "items")
    check_length(scores, "propensity", len(other))
    return return_as(np.column_stack([other, 3 * normal_scores(scores)]), code)


def popularity_quantiles(counts: Array, clusters: int) -> Array:
    """Labels int32 [items] of groups with about equally many items, 0 for the most popular group.

    This is the control without learning. The groups are quantiles of the counts. Equally popular items get the same
    label, so the number of groups can be smaller than requested when many items have the same count. The labels have no
    gaps.

    Args:
        counts: [items], training pairs per item.
        clusters: number of groups, at least 1.

    Raises:
        ConfigError: ``clusters`` is not an integer of at least 1.
        DataError: a count is negative or not finite, or the shape is not [items].

    Example:
        >>> popularity_quantiles(np.array([90, 1, 7, 30, 1, 7]), clusters=3).tolist()
        [0, 2, 1, 0, 2, 1]
    """
    wanted, pairs = check_clusters(clusters), check_finite(counts, "counts", "items")
    if pairs.min() < 0:
        raise DataError(f"counts of item {pairs.argmin()} is {pairs.min():g}; expected 0 or more training pairs")
    places = _double_ranks(-pairs)
    # Integer arithmetic, so that rounding cannot move an item to another group.
    group = (places - 1) * wanted // (2 * len(places))
    return return_as(np.unique(group, return_inverse=True)[1].astype(np.int32), counts)


def normal_scores(values: FloatArray) -> FloatArray:
    """Normal scores of checked values, see ``gaussian_rank``."""
    places = (_double_ranks(values) - 1) / (2 * len(values))
    scores = np.asarray(torch.special.ndtri(torch.from_numpy(places)).numpy(), dtype=np.float64)
    scores = scores - scores.mean()
    # The spread of equal values is only rounding error.
    return scores / scores.std() if np.ptp(values) > 0 else np.zeros_like(scores)


def _double_ranks(values: FloatArray) -> IntArray:
    """Twice the rank, starting at 1, int64. Ties share their mean rank, whose double is an integer."""
    from scipy.stats import rankdata  # late: SciPy takes a while to import

    return np.asarray(np.rint(2 * rankdata(values)).astype(np.int64))
