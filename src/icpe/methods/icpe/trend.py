"""The trend of an item: how much more, or less, popular it is now than over the whole training data.

A log with timestamps shows which items rise and which fall. Training sees each item's whole history, so neither the
personal score nor the propensity contains the change. The trend is the logarithm of a smoothed ratio,

    trend_i = log((r_i + a) / (e_i + a)),

where r_i is the number of training pairs of the item with weights that halve with every half-life into the past, and
e_i is the value that r_i would have if the item's share of all pairs had never changed. Half-life and smoothing a are
those under which the first nine tenths of the training pairs predict the items of the last tenth best.
"""

from typing import NamedTuple

import numpy as np

from icpe.data.interactions import Interactions
from icpe.types import FloatArray, IntArray

HALF_LIVES = (0.5, 0.2, 0.1, 0.05, 0.02, 0.01)  # as shares of the pairs, the latest ones, that one half-life covers
SMOOTHING = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
HELD_OUT = 0.1
_FEWEST = 1000  # pairs; a tenth of less predicts nothing


class Choice(NamedTuple):
    """The half-life, as a share of :data:`HALF_LIVES`, and the smoothing that predict best."""

    half_life: float
    smoothing: float


def popularity_trend(train: Interactions) -> FloatArray:
    """Return the trend of each item, float64 [items]; 0 for all items if the log has no times or is very small."""
    size = len(train.items)
    if train.timestamp is None or len(train) < _FEWEST or np.ptp(train.timestamp) == 0:
        return np.zeros(size)
    order = np.argsort(train.timestamp, kind="stable")
    time, item = train.timestamp[order].astype(np.float64), train.item[order]
    chosen = best_choice(time, item, size)
    return np.zeros(size) if chosen is None else trend(time, item, size, *chosen)


def best_choice(time: FloatArray, item: IntArray, items: int) -> Choice | None:
    """Return the choice under which early pairs predict late ones best, or None if no trend predicts them best.

    The prediction gives an item a probability proportional to its count among the early pairs times exp(trend). Late
    pairs of items that have no early ones are left out.

    Args:
        time: times in ascending order, [pairs].
        item: item code of each pair.
        items: number of items.
    """
    cut = round(len(item) * (1 - HELD_OUT))
    counts = np.bincount(item[:cut], minlength=items)
    known = counts > 0
    late = np.bincount(item[cut:], minlength=items)[known]
    if late.sum() == 0:
        return None
    level = np.log(counts[known])

    def likelihood(logits: FloatArray) -> float:
        highest = logits.max()
        return float(late @ (logits - highest) / late.sum() - np.log(np.exp(logits - highest).sum()))

    best, chosen = likelihood(level), None
    for half_life in HALF_LIVES:
        recent, expected = decayed(time[:cut], item[:cut], items, half_life)
        for smoothing in SMOOTHING:
            found = likelihood(level + np.log((recent + smoothing) / (expected + smoothing))[known])
            if found > best:
                best, chosen = found, Choice(half_life, smoothing)
    return chosen


def trend(time: FloatArray, item: IntArray, items: int, half_life: float, smoothing: float) -> FloatArray:
    """Return the trends at the time of the last pair, float64 [items]; see :func:`best_choice` for the arguments."""
    recent, expected = decayed(time, item, items, half_life)
    values: FloatArray = np.log((recent + smoothing) / (expected + smoothing))
    return values


def decayed(time: FloatArray, item: IntArray, items: int, half_life: float) -> tuple[FloatArray, FloatArray]:
    """Return the decayed count r of each item, and its value e without any change, float64 [items] each."""
    age = time[-1] - time
    unit = max(age[round((len(age) - 1) * (1 - half_life))], np.finfo(np.float64).tiny)
    weight = np.exp2(-age / unit)
    recent: FloatArray = np.bincount(item, weight, items).astype(np.float64)
    # An item without training pairs counts as if it had one, as everywhere.
    expected = np.maximum(np.bincount(item, minlength=items), 1) * (weight.sum() / len(item))
    return recent, expected
