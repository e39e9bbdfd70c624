"""Bootstrap over users: how much a metric would differ with other users of the same kind.

A resample draws as many lists as there are, with replacement. It is described by how often it contains each list, so
that sums over resampled lists are matrix products.
"""

from collections.abc import Iterator

import numpy as np

from icpe.rng import stream
from icpe.types import FloatArray

RESAMPLES = 200
LEVEL = 0.95
_AT_ONCE = 4_000_000  # resampled lists that are held in memory at the same time


def draws(lists: int, resamples: int = RESAMPLES, seed: int = 0) -> Iterator[FloatArray]:
    """Yield how often each resample contains each list, float32 [some resamples, lists], until there are all resamples.

    The same seed and the same number of lists give the same resamples, whatever is measured on them.
    """
    rng, at_once = stream(seed, "bootstrap over users"), max(1, _AT_ONCE // max(lists, 1))
    for first in range(0, resamples, at_once):
        rows = min(at_once, resamples - first)
        times = np.empty((rows, lists), np.float32)
        for row in times:
            row[:] = np.bincount(rng.integers(lists, size=lists, dtype=np.int32), minlength=lists)
        yield times


def interval(
    value: float, resampled: FloatArray, centred: bool = False, level: float = LEVEL
) -> tuple[float, float] | None:
    """Bounds between which a metric lies with this confidence; None if it has no value.

    The bounds are the (1 − level) / 2 and (1 + level) / 2 quantiles of the resampled values. Resamples without a value
    are ignored.

    Args:
        value: the metric of all lists.
        resampled: its values on the resamples, NaN where it has none.
        centred: whether to move the bounds by the difference between the value and the mean of the resampled values.
            Metrics of concentration, such as coverage, need this: a resample contains only 63 % of the lists, so it
            shows fewer items than all lists do, and its plain quantiles would not even contain the value.
        level: confidence level.

    Example:
        >>> interval(10.0, np.array([7.0, 8.0, 9.0]), centred=True, level=0.5)
        (9.5, 10.5)
    """
    present = resampled[np.isfinite(resampled)]
    if not np.isfinite(value) or len(present) < 2:
        return None
    low, high = np.quantile(present, [(1 - level) / 2, (1 + level) / 2]) + centred * (value - present.mean())
    return float(low), float(high)
