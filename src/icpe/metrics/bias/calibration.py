"""Popularity calibration: whether a list has the mixture of popular and rare items that its user chose before."""

import numpy as np

from icpe.types import FloatArray, IntArray

BANDS = ("head", "mid", "tail")
_BORDERS = (0.2, 0.8)  # shares of the interactions at which one band ends and the next begins


def popularity_bands(counts: IntArray) -> IntArray:
    """Band of each item, int8 [items]: 0 for head, 1 for mid, 2 for tail.

    The bands hold 20, 60 and 20 % of the interactions, the most popular items first. An item belongs to the band in
    which its first interaction falls. Ties are broken by the smaller code; items without interactions are tail. The
    head here is smaller than the head of all other metrics, which is a fifth of the *items*.

    Example:
        >>> popularity_bands(np.array([1, 2, 5, 1, 1, 0])).tolist()
        [1, 1, 0, 2, 2, 2]
    """
    order = np.argsort(-counts, kind="stable")
    sums = np.cumsum(counts[order], dtype=np.int64)
    before = sums - counts[order]
    bands = np.empty(len(counts), np.int8)
    bands[order] = sum((before >= border * sums[-1] for border in _BORDERS), np.zeros(len(counts), np.int8))
    bands[counts == 0] = len(BANDS) - 1
    return bands


def band_shares(bands: IntArray) -> FloatArray:
    """Share of each band among the items of each row, float64 [rows, bands]; 0 for rows without items.

    ``bands`` is int [rows, n], with -1 for empty positions.

    Example:
        >>> band_shares(np.array([[0, 0, 1, 2], [2, -1, -1, -1]])).tolist()
        [[0.5, 0.25, 0.25], [0.0, 0.0, 1.0]]
    """
    counts = np.stack([(bands == band).sum(axis=1) for band in range(len(BANDS))], axis=1)
    return np.asarray(counts / np.maximum(counts.sum(axis=1, keepdims=True), 1))


def jensen_shannon(p: FloatArray, q: FloatArray) -> FloatArray:
    """Jensen–Shannon divergence of two distributions in bits, float64 [...], from 0 (equal) to 1 (nothing in common).

    JSD = ½·Σ p·log2(p / m) + ½·Σ q·log2(q / m) with m = (p + q) / 2 over the last axis, and 0·log 0 = 0.

    Example:
        >>> jensen_shannon(np.array([[1.0, 0.0], [0.5, 0.5]]), np.array([[0.0, 1.0], [0.5, 0.5]])).tolist()
        [1.0, 0.0]
    """
    middle = (p + q) / 2

    def half(part: FloatArray) -> FloatArray:
        ratio = np.divide(part, middle, out=np.ones_like(middle), where=part > 0)
        return np.asarray((part * np.log2(ratio)).sum(axis=-1) / 2)

    return np.clip(half(p) + half(q), 0.0, 1.0)
