"""Attention: exposure that counts high positions more, and expected exposure.

A list has one unit of attention. Position r gets a share proportional to 1 / log2(r + 1), the discount of NDCG. Empty
positions get nothing, so that a short list has one unit, too. ``items`` is int32 [lists, n] with -1 where a list is
shorter than n.
"""

from typing import NamedTuple

import numpy as np

from icpe.types import FloatArray, IntArray


class ExpectedExposure(NamedTuple):
    """The results of :func:`expected_exposure`, each float64 [...]."""

    disparity: FloatArray
    relevance: FloatArray
    loss: FloatArray


def discounts(n: int) -> FloatArray:
    """Discounts 1 / log2(r + 1) of the positions r = 1, …, n, float64 [n].

    Example:
        >>> discounts(3).round(4).tolist()
        [1.0, 0.6309, 0.5]
    """
    return np.asarray(1 / np.log2(np.arange(2, n + 2)))


def attention(items: IntArray) -> FloatArray:
    """Share of each position in the attention of its list, float64 [lists, n].

    Example:
        >>> attention(np.array([[7, 3, 5], [7, -1, -1]])).round(4).tolist()
        [[0.4693, 0.2961, 0.2346], [1.0, 0.0, 0.0]]
    """
    shares = np.where(items >= 0, discounts(items.shape[1]), 0.0)
    total = shares.sum(axis=1, keepdims=True)
    return np.asarray(shares / np.where(total > 0, total, 1.0))


def item_attention(items: IntArray, size: int) -> FloatArray:
    """Rank-weighted exposure: mean attention that each of ``size`` items gets from a list, float64 [size].

    Example:
        >>> item_attention(np.array([[0, 1, 2], [0, -1, -1]]), 4).round(4).tolist()
        [0.7346, 0.148, 0.1173, 0.0]
    """
    weights = attention(items) / max(len(items), 1)
    return np.asarray(np.bincount(items.ravel() + 1, weights.ravel(), size + 1)[1:])


def wanted_attention(relevant: IntArray, size: int, n: int) -> tuple[FloatArray, FloatArray]:
    """Attention that each relevant and each other item gets from an ideal list of n out of ``size`` items.

    Among equally relevant items, no order is better than another. An ideal recommender therefore puts the |T| relevant
    items first in random order, followed by the other items in random order. Each relevant item then expects an equal
    share of the attention of the first min(|T|, n) positions, and each other item an equal share of the rest.

    Args:
        relevant: int [lists], number of relevant items |T| of each user.
        size: number of items.
        n: list length.

    Returns:
        Two arrays float64 [lists]: attention of one relevant item, and of one other item.

    Example:
        >>> relevant, other = wanted_attention(np.array([1, 2]), size=4, n=2)
        >>> relevant.round(4).tolist(), other.round(4).tolist()
        ([0.6131, 0.5], [0.129, 0.0])
    """
    length = min(n, size)
    gained = np.concatenate([[0.0], np.cumsum(discounts(length))])
    first = gained[np.minimum(relevant, length)] / gained[-1]
    rest = np.maximum(size - relevant, 1)
    return first / np.maximum(relevant, 1), np.where(relevant < size, (1 - first) / rest, 0.0)


def expected_exposure(shown: FloatArray, wanted: FloatArray) -> ExpectedExposure:
    """Expected-exposure disparity, relevance and loss (Diaz et al. 2020), with E and E* over the items.

    EE-D = Σ E_i², EE-R = 2·Σ E_i·E*_i and EE-L = Σ (E_i − E*_i)² = EE-D − EE-R + Σ E*_i². E_i is the mean attention of
    item i over users and E*_i what it would get from the ideal lists of :func:`wanted_attention`.

    Args:
        shown: E, float64 [..., items].
        wanted: E*, with the same shape.

    Example:
        >>> found = expected_exposure(np.array([1.0, 0.0]), np.array([0.5, 0.5]))
        >>> float(found.disparity), float(found.relevance), float(found.loss)
        (1.0, 1.0, 0.5)
    """
    return ExpectedExposure(
        (shown**2).sum(axis=-1), 2 * (shown * wanted).sum(axis=-1), ((shown - wanted) ** 2).sum(axis=-1)
    )
