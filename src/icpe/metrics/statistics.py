"""How sure one may be that one method is better than another.

All are functions of plain arrays. NaN stands for a value that is missing. A test that cannot be made, as with one seed,
is None rather than a number that looks like an answer.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from icpe.errors import ConfigError
from icpe.types import FloatArray

_CONSTANT = 1e-12  # spread below this share of the size is rounding
_DRAWN_AT_ONCE = 4_000_000  # resampled users in memory


@dataclass(frozen=True)
class TTest:
    """A two-sided t-test.

    Attributes:
        difference: the mean that was tested against 0.
        t: of Student's distribution.
        p: how probable so large a |t| is if the true mean is 0.
        n: values that were used.
    """

    difference: float
    t: float
    p: float
    n: int


def mean_and_std(values: Sequence[float] | FloatArray) -> tuple[float | None, float | None]:
    """Mean and sample standard deviation, √(Σ (xᵢ − x̄)² / (n − 1)); None where there is nothing to take it from.

    Example:
        >>> mean_and_std([1.0, 2.0, 3.0])
        (2.0, 1.0)
        >>> mean_and_std([0.5])
        (0.5, None)
    """
    known = _known(values)
    if len(known) == 0:
        return None, None
    return float(known.mean()), float(known.std(ddof=1)) if len(known) > 1 else None


def t_test(differences: Sequence[float] | FloatArray) -> TTest | None:
    """Whether the mean of differences is 0: t = d̄ / (s / √n) with n − 1 degrees of freedom.

    Differences that are all 0 give p = 1. Those that are all the same and not 0 give None: methods that do not depend
    on the seed have no spread to judge by.

    Example:
        >>> found = t_test([1.0, 2.0, 3.0])
        >>> round(found.t, 4), round(found.p, 4)
        (3.4641, 0.0742)
        >>> t_test([0.25]) is None
        True
    """
    known = _known(differences)
    if len(known) < 2:
        return None
    mean, std = float(known.mean()), float(known.std(ddof=1))
    if not known.any():
        return TTest(0.0, 0.0, 1.0, len(known))
    if std <= _CONSTANT * float(np.abs(known).max()):
        return None
    t = mean / (std / float(np.sqrt(len(known))))
    return TTest(mean, t, float(2 * stats.t.sf(abs(t), len(known) - 1)), len(known))


def paired_t_test(ours: Sequence[float] | FloatArray, theirs: Sequence[float] | FloatArray) -> TTest | None:
    """:func:`t_test` of ours less theirs, pair by pair; pairs with a missing value are left out.

    Example:
        >>> found = paired_t_test([0.30, 0.31, 0.33], [0.29, 0.29, 0.30])
        >>> round(found.difference, 4), round(found.p, 4)
        (0.02, 0.0742)
    """
    return t_test(np.asarray(ours, np.float64) - np.asarray(theirs, np.float64))


def one_sample_t_test(values: Sequence[float] | FloatArray, against: float) -> TTest | None:
    """:func:`t_test` of values less one number, as in the paper: a method's seeds against the best rival's mean.

    It takes the rival's mean for exact, and does not use that both were measured on the same splits.

    Example:
        >>> round(one_sample_t_test([0.30, 0.31, 0.33], 0.29).p, 4)
        0.1181
    """
    return t_test(np.asarray(values, np.float64) - against)


def bootstrap_interval(
    differences: FloatArray, level: float = 0.95, resamples: int = 1000, seed: int = 0
) -> tuple[FloatArray, FloatArray]:
    """Between which bounds the mean lies when users are drawn anew: the percentile interval.

    Each resample draws as many users as there are, with replacement, and takes the mean of each column over those with
    a value; the bounds are the (1 − level) / 2 and (1 + level) / 2 quantiles of these means. All columns see the same
    draws.

    Args:
        differences: float [users, columns], NaN where a user has none.
        level: share of the means within the bounds.
        resamples: how often.
        seed: of the draws.

    Returns:
        Lower and upper bounds, float [columns]; NaN where a column has no value.

    Example:
        >>> low, high = bootstrap_interval(np.array([[1.0], [1.0], [1.0]]))
        >>> low.tolist(), high.tolist()
        ([1.0], [1.0])
    """
    if differences.ndim != 2:
        raise ConfigError(f"differences have {differences.ndim} axes; expected two, users × columns")
    users, columns = differences.shape
    there = ~np.isnan(differences)
    low, high, some = np.full(columns, np.nan), np.full(columns, np.nan), there.any(axis=0)
    if not some.any():
        return low, high
    means = np.full((resamples, columns), np.nan)
    values, rng = np.where(there, differences, 0.0), np.random.default_rng(seed)
    at_once = max(1, _DRAWN_AT_ONCE // users)
    for first in range(0, resamples, at_once):
        rows = min(at_once, resamples - first)
        drawn = rng.integers(users, size=(rows, users)) + users * np.arange(rows)[:, None]
        times = np.bincount(drawn.ravel(), minlength=rows * users).reshape(rows, users).astype(np.float64)
        counts = times @ there.astype(np.float64)
        np.divide(times @ values, counts, out=means[first : first + rows], where=counts > 0)
    # A draw may miss every user who has a value; it says nothing then.
    low[some], high[some] = np.nanquantile(means[:, some], [(1 - level) / 2, (1 + level) / 2], axis=0)
    return low, high


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Holm's correction: of m tests, the i-th smallest p becomes max over j ≤ i of min(1, (m − j + 1) · p₍ⱼ₎).

    To call those below .05 significant keeps the chance of any false alarm at 5 %, however tests depend on each other.
    None stays None and does not count as a test.

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


def _known(values: Sequence[float] | FloatArray) -> FloatArray:
    array = np.asarray(values, np.float64)
    return array[~np.isnan(array)]
