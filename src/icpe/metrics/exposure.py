"""Exposure: how much of the catalogue the lists show, and how popular and how novel the shown items are.

``items`` is int32 [lists, n] with -1 where a list is shorter than n. L(u) is the list of user u without these empty
positions, n_i the number of training pairs of item i, and I the set of all items of the training part.
"""

import numpy as np

from icpe.data.popularity import gini as _gini
from icpe.types import BoolArray, FloatArray, IntArray


def exposure(items: IntArray, size: int) -> IntArray:
    """Number of lists that contain each of ``size`` items, int64 [size].

    Example:
        >>> exposure(np.array([[2, 0], [2, -1]]), size=4).tolist()
        [1, 0, 2, 0]
    """
    return np.bincount(items.ravel() + 1, minlength=size + 1)[1:]


def coverage(shown: IntArray) -> float:
    """Share of all items that are in at least one list, |⋃_u L(u)| / |I|, computed from :func:`exposure`.

    Example:
        >>> coverage(np.array([1, 0, 2, 0]))
        0.5
    """
    return float(np.count_nonzero(shown) / len(shown))


def gini(shown: IntArray) -> float:
    """Gini coefficient of :func:`exposure`: 0 if all items are shown equally often, near 1 if one item gets everything.

    With exposures in ascending order, x_1 ≤ … ≤ x_m, m = |I|: G = 2·Σ j·x_j / (m·Σ x_j) − (m + 1)/m.

    Example:
        >>> gini(np.array([0, 0, 0, 8]))
        0.75
    """
    return _gini(shown)


def apt(items: IntArray, niche: BoolArray, n: IntArray) -> FloatArray:
    """Share of niche items in each list, |L(u) ∩ niche| / |L(u)|, float64 [lists, lengths], for each length in ``n``.

    ``niche`` is a mask [size of I]. The value of an empty list is 0.

    Example:
        >>> apt(np.array([[0, 1, -1]]), np.array([False, True]), np.array([1, 2, 3])).tolist()
        [[0.0, 0.5, 0.5]]
    """
    return _mean_of_list(items, niche.astype(np.float64), n)


def popularity(items: IntArray, counts: IntArray, n: IntArray) -> FloatArray:
    """Mean training count of the items of each list, Σ_{i ∈ L(u)} n_i / |L(u)|, float64 [lists, lengths].

    ``counts`` holds n_i [size of I]. The value of an empty list is 0.

    Example:
        >>> popularity(np.array([[0, 1]]), np.array([7, 2]), np.array([1, 2])).tolist()
        [[7.0, 4.5]]
    """
    return _mean_of_list(items, counts.astype(np.float64), n)


def novelty(items: IntArray, counts: IntArray, users: int, n: IntArray) -> FloatArray:
    """Mean self-information of the items of each list in bits, float64 [lists, lengths].

    Σ_{i ∈ L(u)} −log2(max(n_i, 1) / U) / |L(u)| with U the number of ``users`` of the training part. It measures how
    surprising it is that a randomly chosen user has used the item. An item without training pairs counts like an item
    with one pair, so that a single cold item does not make the mean infinite. The value of an empty list is 0.

    Example:
        >>> novelty(np.array([[0, 1]]), np.array([4, 0]), 8, np.array([1, 2])).tolist()
        [[1.0, 2.0]]
    """
    return _mean_of_list(items, np.log2(users) - np.log2(np.maximum(counts, 1)), n)


def exposure_values(items: IntArray, counts: IntArray, users: int, niche: BoolArray, n: int) -> dict[str, float]:
    """All metrics of this module at length n, by name, such as ``apt@20``. Metrics of single lists are averaged.

    ``counts`` and ``niche`` are arrays [size of I]; ``users`` is the number of users of the training part.

    Example:
        >>> found = exposure_values(np.array([[0, 1]]), np.array([4, 0]), 8, np.array([False, True]), 2)
        >>> found["coverage@2"], found["apt@2"], found["popularity@2"], found["novelty@2"]
        (1.0, 0.5, 2.0, 2.0)
    """
    length, shown = np.array([n]), exposure(items[:, :n], len(counts))
    return {
        f"coverage@{n}": coverage(shown),
        f"apt@{n}": float(apt(items, niche, length).mean()),
        f"gini@{n}": gini(shown),
        f"popularity@{n}": float(popularity(items, counts, length).mean()),
        f"novelty@{n}": float(novelty(items, counts, users, length).mean()),
    }


def _mean_of_list(items: IntArray, value: FloatArray, n: IntArray) -> FloatArray:
    """Mean of a value per item over the first n items of each list, float64 [lists, lengths]."""
    # Code -1 reads the last entry, which is 0. Cumulative sums give the same bits for a length, whatever other lengths
    # are requested.
    sums = np.cumsum(np.append(value, 0.0)[items], axis=1)
    if items.min(initial=0) >= 0:  # usually no list is short, and nothing needs counting
        return np.asarray(sums[:, n - 1] / n)
    filled = np.cumsum(items >= 0, axis=1)
    return np.asarray(sums[:, n - 1] / np.maximum(filled[:, n - 1], 1))
