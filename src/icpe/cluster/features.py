"""What items are clustered by: ranks, features that contain the propensity, and plain quantiles."""

import numpy as np
import torch

from icpe.cluster._arrays import Array, check_clusters, check_length, return_as, to_numpy
from icpe.errors import DataError
from icpe.types import FloatArray, IntArray


def gaussian_rank(values: Array) -> Array:
    """Normal scores g, float64 [items]: ranks turned into quantiles of the normal distribution, mean 0, variance 1.

    Equal values share the mean of their ranks. With r_i the rank of an item from 1 to n, g_i = Φ⁻¹((r_i − ½) / n),
    then shifted and scaled, which ties alone make necessary. The order is kept and nothing else, so it does not matter
    how long the tail is. If all values are equal, all scores are 0.

    Args:
        values: [items], array or tensor; the result is of the same kind.

    Raises:
        DataError: a value is not finite, or the shape is another.

    Example:
        >>> gaussian_rank(np.array([3.0, 1000.0, 5.0])).round(2).tolist()
        [-1.22, 1.22, 0.0]
    """
    return return_as(normal_scores(to_numpy(values, "values", "items")), values)


def propensity_features(code: Array, propensity: Array) -> Array:
    """Features [code ; 3·g] of items, float64 [items, F + 1], with g the Gaussian rank of the propensity (I4).

    The code alone stops following popularity after some epochs; three times a column of variance 1 outweighs a code
    whose columns vary by about 1. Give ``gaussian_rank(propensity)`` to ``popularity_clusters`` as its propensity:
    on uniform ranks, or a propensity with outliers, its rule of acceptance is a coin toss.

    Args:
        code: [items, F] what else is known of the items, say the code of an autoencoder; F may be 0.
        propensity: [items], the propensity S^g or its Gaussian rank, which has the same ranks.

    Raises:
        DataError: a value is not finite, or the shapes do not fit.

    Example:
        >>> propensity_features(np.array([[0.5], [0.1]]), np.array([1.0, 9.0])).round(2).tolist()
        [[0.5, -3.0], [0.1, 3.0]]
    """
    known, scores = to_numpy(code, "code", "items, F"), to_numpy(propensity, "propensity", "items")
    check_length(scores, "propensity", len(known))
    return return_as(np.column_stack([known, 3 * normal_scores(scores)]), code)


def popularity_quantiles(counts: Array, clusters: int) -> Array:
    """Labels int32 [items] of groups of about equally many items, 0 for the most popular: the control without learning.

    They are quantiles of the counts and so of their logarithm too. Equally popular items get the same label, so there
    are fewer groups than asked for where many items have the same count; the labels have no gaps.

    Args:
        counts: [items], training pairs per item.
        clusters: number of groups, at least 1.

    Raises:
        ConfigError: ``clusters`` is not a whole number from 1 up.
        DataError: a count is negative or not finite, or the shape is another.

    Example:
        >>> popularity_quantiles(np.array([90, 1, 7, 30, 1, 7]), clusters=3).tolist()
        [0, 2, 1, 0, 2, 1]
    """
    wanted, known = check_clusters(clusters), to_numpy(counts, "counts", "items")
    if known.min() < 0:
        raise DataError(f"counts of item {known.argmin()} is {known.min():g}; expected 0 or more training pairs")
    places = _double_ranks(-known)
    # In whole numbers, so that no group is off by one through rounding.
    group = (places - 1) * wanted // (2 * len(places))
    return return_as(np.unique(group, return_inverse=True)[1].astype(np.int32), counts)


def normal_scores(values: FloatArray) -> FloatArray:
    """``gaussian_rank`` of checked values."""
    places = (_double_ranks(values) - 1) / (2 * len(values))
    scores = np.asarray(torch.special.ndtri(torch.from_numpy(places)).numpy(), dtype=np.float64)
    scores = scores - scores.mean()
    # The spread of equal values is rounding, not a unit to scale by.
    return scores / scores.std() if np.ptp(values) > 0 else np.zeros_like(scores)


def _double_ranks(values: FloatArray) -> IntArray:
    """Twice the rank from 1 up, int64; equal values share the mean of their ranks, which doubled is whole."""
    _, place, size = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(size)
    return np.asarray((2 * last - size + 1)[place])
