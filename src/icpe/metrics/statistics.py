"""Statistics that say how certain a difference between two methods is.

All functions take plain arrays, in which NaN stands for a missing value. A test that cannot be carried out, for example
because only one seed was run, returns None instead of a number that looks like an answer.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from icpe.errors import ConfigError
from icpe.types import FloatArray

_CONSTANT = 1e-12  # a spread below this share of the largest value is rounding error
_DRAWS_AT_ONCE = 4_000_000  # resampled users that are held in memory at the same time


@dataclass(frozen=True)
class TTest:
    """Result of a two-sided t-test.

    Attributes:
        difference: mean that was tested against 0.
        t: value of the test statistic.
        p: probability of a |t| at least this large if the true mean is 0.
        n: number of values that were used.
    """

    difference: float
    t: float
    p: float
    n: int


def mean_and_std(values: Sequence[float] | FloatArray) -> tuple[float | None, float | None]:
    """Mean and sample standard deviation, √(Σ (xᵢ − x̄)² / (n − 1)), ignoring missing values.

    The mean is None without any value, the standard deviation with fewer than two.

    Example:
        >>> mean_and_std([1.0, 2.0, 3.0])
        (2.0, 1.0)
        >>> mean_and_std([0.5])
        (0.5, None)
    """
    present = _without_nan(values)
    if len(present) == 0:
        return None, None
    return float(present.mean()), float(present.std(ddof=1)) if len(present) > 1 else None


def t_test(differences: Sequence[float] | FloatArray) -> TTest | None:
    """Test whether the mean of the differences is 0, with n − 1 degrees of freedom.

    Differences that are all 0 give p = 1. Differences that are all equal but not 0 give None: methods that do not
    depend on the seed have no spread from which a probability could be computed. Fewer than two values give None, too.

    Example:
        >>> found = t_test([1.0, 2.0, 3.0])
        >>> round(found.t, 4), round(found.p, 4)
        (3.4641, 0.0742)
        >>> t_test([0.25]) is None
        True
    """
    present = _without_nan(differences)
    if len(present) < 2:
        return None
    if not present.any():
        return TTest(0.0, 0.0, 1.0, len(present))
    if float(present.std(ddof=1)) <= _CONSTANT * float(np.abs(present).max()):
        return None
    found = stats.ttest_1samp(present, 0.0)
    return TTest(float(present.mean()), float(found.statistic), float(found.pvalue), len(present))


def paired_t_test(ours: Sequence[float] | FloatArray, theirs: Sequence[float] | FloatArray) -> TTest | None:
    """:func:`t_test` of the paired differences, ours minus theirs. Pairs with a missing value are left out.

    Example:
        >>> found = paired_t_test([0.30, 0.31, 0.33], [0.29, 0.29, 0.30])
        >>> round(found.difference, 4), round(found.p, 4)
        (0.02, 0.0742)
    """
    return t_test(np.asarray(ours, np.float64) - np.asarray(theirs, np.float64))


def one_sample_t_test(values: Sequence[float] | FloatArray, against: float) -> TTest | None:
    """:func:`t_test` of the values minus one number, as in the paper: a method's seeds against the best rival's mean.

    The test treats the rival's mean as exact and ignores that both methods were measured on the same splits.

    Example:
        >>> round(one_sample_t_test([0.30, 0.31, 0.33], 0.29).p, 4)
        0.1181
    """
    return t_test(np.asarray(values, np.float64) - against)


def bootstrap_interval(
    differences: FloatArray, level: float = 0.95, resamples: int = 1000, seed: int = 0
) -> tuple[FloatArray, FloatArray]:
    """Percentile bootstrap interval of the mean of each column, over users.

    Each resample draws as many users as the table has, with replacement, and computes the mean of each column over the
    drawn users with a value. The bounds are the (1 − level) / 2 and (1 + level) / 2 quantiles of these means. All
    columns use the same draws.

    Args:
        differences: float [users, columns], NaN where a user has no value.
        level: confidence level of the interval.
        resamples: number of resamples.
        seed: seed of the draws.

    Returns:
        Lower and upper bounds, float [columns]. They are NaN where a column has no value.

    Example:
        >>> low, high = bootstrap_interval(np.array([[1.0], [1.0], [1.0]]))
        >>> low.tolist(), high.tolist()
        ([1.0], [1.0])
    """
    if differences.ndim != 2:
        raise ConfigError(f"differences has {differences.ndim} axes; expected two, users × columns")
    users, columns = differences.shape
    present = ~np.isnan(differences)
    low, high, some = np.full(columns, np.nan), np.full(columns, np.nan), present.any(axis=0)
    if not some.any():
        return low, high
    means = np.full((resamples, columns), np.nan)
    values, rng = np.where(present, differences, 0.0), np.random.default_rng(seed)
    at_once = max(1, _DRAWS_AT_ONCE // users)
    for first in range(0, resamples, at_once):
        rows = min(at_once, resamples - first)
        drawn = rng.integers(users, size=(rows, users)) + users * np.arange(rows)[:, None]
        times = np.bincount(drawn.ravel(), minlength=rows * users).reshape(rows, users).astype(np.float64)
        counts = times @ present.astype(np.float64)
        np.divide(times @ values, counts, out=means[first : first + rows], where=counts > 0)
    # A resample that misses every user with a value has no mean and is ignored.
    low[some], high[some] = np.nanquantile(means[:, some], [(1 - level) / 2, (1 + level) / 2], axis=0)
    return low, high


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """P-values after Holm's correction: the i-th smallest of m becomes max over j ≤ i of min(1, (m − j + 1) · p₍ⱼ₎).

    If values below .05 are called significant, the probability of one or more false positives is at most 5 %, however
    the tests depend on each other. None stays None and does not count as a test. SciPy has no Holm correction.

    Example:
        >>> holm([0.01, 0.04, None, 0.03])
        [0.03, 0.06, None, 0.06]
    """
    places = [place for place, p in enumerate(p_values) if p is not None]
    places.sort(key=lambda place: p_values[place] or 0.0)
    corrected: list[float | None] = [None] * len(p_values)
    largest = 0.0
    for rank, place in enumerate(places):
        largest = max(largest, min(1.0, (len(places) - rank) * (p_values[place] or 0.0)))
        corrected[place] = largest
    return corrected


def _without_nan(values: Sequence[float] | FloatArray) -> FloatArray:
    array = np.asarray(values, np.float64)
    return array[~np.isnan(array)]
