"""Concentration of exposure on few items, for many exposures at once.

``shown`` is float [..., items]: how often, or with how much attention, each item is shown. Leading axes may hold
several sets of lists or resamples.
"""

import numpy as np

from icpe.types import FloatArray, IntArray


def entropy(shown: FloatArray | IntArray) -> FloatArray:
    """Shannon entropy of the exposure in bits, −Σ p_i·log2 p_i with p_i = x_i / Σ x, float64 [...].

    It is 0 if one item gets everything, and log2 |I| if all items get the same. 2 to its power is the number of items
    that would have this entropy if they were shown equally often.

    Example:
        >>> float(entropy(np.array([1, 1, 1, 1, 0]))), float(entropy(np.array([8, 0])))
        (2.0, 0.0)
    """
    total = shown.sum(axis=-1, dtype=np.float64)
    # Σ −p·log2 p = log2 Σx − Σ x·log2 x / Σx, so that nothing is divided item by item.
    logs = np.log2(np.where(shown > 0, shown, 1))
    sums = (shown * logs).sum(axis=-1, dtype=np.float64)
    safe = np.where(total > 0, total, 1.0)
    return np.asarray(np.maximum(np.log2(safe) - sums / safe, 0.0))


def gini(shown: FloatArray | IntArray) -> FloatArray:
    """Gini coefficient of each exposure, float64 [...], as :func:`icpe.metrics.exposure.gini` defines it.

    Example:
        >>> gini(np.array([[0, 0, 0, 8], [2, 2, 2, 2]])).tolist()
        [0.75, 0.0]
    """
    ordered, size = np.sort(shown, axis=-1), shown.shape[-1]
    total = ordered.sum(axis=-1, dtype=np.float64)
    weighted = ordered @ np.arange(1, size + 1, dtype=np.float64)
    safe = np.where(total > 0, total, 1.0)
    return np.where(total > 0, 2 * weighted / (size * safe) - (size + 1) / size, 0.0)


def coverage(shown: FloatArray | IntArray) -> FloatArray:
    """Share of the items that are shown at all, float64 [...].

    Example:
        >>> coverage(np.array([[0, 0, 0, 8], [2, 2, 2, 2]])).tolist()
        [0.25, 1.0]
    """
    return np.asarray(np.count_nonzero(shown, axis=-1) / shown.shape[-1])


def lorenz_curve(shown: FloatArray | IntArray, pieces: int = 100) -> FloatArray:
    """Lorenz curve: share of the exposure on the least shown 0, …, 100 % of the items, float64 [pieces + 1].

    The diagonal means that all items are shown equally often. The area between it and the full curve, doubled, is the
    Gini coefficient.

    Example:
        >>> lorenz_curve(np.array([6, 0, 3, 1]), pieces=4).tolist()
        [0.0, 0.0, 0.1, 0.4, 1.0]
    """
    curve = np.concatenate([[0.0], np.cumsum(np.sort(shown), dtype=np.float64)])
    total = curve[-1] if curve[-1] > 0 else 1.0
    return np.interp(np.linspace(0, len(shown), pieces + 1), np.arange(len(curve)), curve / total)
