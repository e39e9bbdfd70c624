"""Popularity of items: head and niche items, and how unevenly interactions are distributed."""

import numpy as np

from icpe.types import BoolArray, FloatArray, IntArray


def head_mask(counts: IntArray) -> BoolArray:
    """Mask of the head items: the 20 % of items with the most interactions. All other items are niche items.

    The number of head items is rounded up. Among equally popular items, those with smaller ids come first.

    Example:
        >>> head_mask(np.array([3, 9, 9, 1, 1, 1])).tolist()
        [False, True, True, False, False, False]
    """
    head = np.zeros(len(counts), bool)
    head[np.argsort(-counts, kind="stable")[: -(-len(counts) // 5)]] = True
    return head


def log_popularity(counts: IntArray) -> FloatArray:
    """Return log(n_i / mean n) of the counts n_i, float32 [items]. A count of 0 is taken as 1.

    Example:
        >>> log_popularity(np.array([0, 1, 1])).tolist()
        [0.0, 0.0, 0.0]
    """
    known = np.maximum(counts, 1)
    return np.asarray(np.log(known / known.mean()).astype(np.float32))


def gini(counts: IntArray) -> float:
    """Gini coefficient of the counts: 0 if all are equal, close to 1 if one item has all interactions.

    With counts in ascending order, x_1 ≤ … ≤ x_n: G = 2·Σ i·x_i / (n·Σ x_i) − (n + 1)/n.

    Example:
        >>> gini(np.array([1, 1, 1, 1])), gini(np.array([0, 0, 0, 8]))
        (0.0, 0.75)
    """
    ordered = np.sort(counts).astype(np.float64)
    size, total = len(ordered), ordered.sum()
    if total == 0:
        return 0.0
    return float(2 * (np.arange(1, size + 1) @ ordered) / (size * total) - (size + 1) / size)


def lorenz(counts: IntArray) -> FloatArray:
    """Share of interactions on the most popular 0, 1, 2, … items, float64 [items + 1]."""
    shares = np.concatenate([[0.0], np.cumsum(np.sort(counts)[::-1], dtype=np.float64)])
    return np.asarray(shares / max(shares[-1], 1.0))


def decile_shares(counts: IntArray) -> FloatArray:
    """Share of interactions on each tenth of the items, the most popular tenth first, float64 [10]."""
    curve = lorenz(counts)
    return np.diff(np.interp(np.linspace(0, len(counts), 11), np.arange(len(curve)), curve))
