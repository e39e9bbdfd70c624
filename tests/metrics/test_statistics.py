"""Statistics against scipy, numbers worked out by hand, and their own definitions."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from icpe.errors import ConfigError
from icpe.metrics.statistics import (
    bootstrap_interval,
    holm,
    mean_and_std,
    one_sample_t_test,
    paired_t_test,
    t_test,
)

OURS, THEIRS = [0.31, 0.29, 0.33, 0.30, 0.35], [0.30, 0.30, 0.30, 0.28, 0.31]


def test_mean_and_std_by_hand():
    # 2, 4, 9: mean 5, squares of the differences 9, 1, 16, half of their sum 13.
    assert mean_and_std([2.0, 4.0, 9.0]) == pytest.approx((5.0, math.sqrt(13)))
    assert mean_and_std([2.0, math.nan, 4.0, 9.0]) == mean_and_std([2.0, 4.0, 9.0])
    assert mean_and_std([0.25]) == (0.25, None)
    assert mean_and_std([]) == (None, None)
    assert mean_and_std([math.nan]) == (None, None)
    assert mean_and_std([0.1, 0.1, 0.1]) == pytest.approx((0.1, 0.0))


def test_t_tests_agree_with_scipy():
    paired, expected = paired_t_test(OURS, THEIRS), stats.ttest_rel(OURS, THEIRS)
    assert (paired.t, paired.p, paired.n) == (pytest.approx(expected.statistic), pytest.approx(expected.pvalue), 5)
    assert paired.difference == pytest.approx(0.018)
    single, expected = one_sample_t_test(OURS, 0.298), stats.ttest_1samp(OURS, 0.298)
    assert (single.t, single.p) == (pytest.approx(expected.statistic), pytest.approx(expected.pvalue))


def test_two_seeds_by_hand():
    """With one degree of freedom, Student's distribution is Cauchy's: p = 1 − 2/π · arctan |t|."""
    found = t_test([1.0, 3.0])  # mean 2, standard error 1
    assert (found.t, found.p) == (pytest.approx(2.0), pytest.approx(1 - 2 / math.pi * math.atan(2)))


@pytest.mark.parametrize(
    ("ours", "theirs", "p"),
    [
        ([0.5], [0.4], None),
        ([], [], None),
        ([0.3, 0.3], [0.3, 0.3], 1.0),
        ([0.3, 0.4, 0.5], [0.2, 0.3, 0.4], None),  # differences of 0.1 up to rounding: nothing to judge by
        ([0.3, math.nan], [0.2, 0.1], None),
    ],
)
def test_where_there_is_no_spread(ours, theirs, p):
    found = paired_t_test(ours, theirs)
    assert (None if found is None else found.p) == p


def test_pairs_with_a_missing_value_are_left_out():
    assert paired_t_test([*OURS, math.nan, 0.9], [*THEIRS, 0.1, math.nan]) == paired_t_test(OURS, THEIRS)


def test_holm_by_hand():
    # Sorted .005, .01, .03, .04 with factors 4, 3, 2, 1: .02, .03, .06, .04 — the last may not be below the one before.
    assert holm([0.03, 0.005, 0.04, 0.01]) == pytest.approx([0.06, 0.02, 0.06, 0.03])
    assert holm([0.6, 0.7]) == [1.0, 1.0]
    assert holm([None, 0.02, None]) == [None, 0.02, None]
    assert holm([]) == []
    assert holm([0.0, 0.5]) == [0.0, 0.5]


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_holm_keeps_the_order_and_lies_between_p_and_bonferroni(p_values):
    corrected = holm(p_values)
    for p, found in zip(p_values, corrected, strict=True):
        assert p <= found <= min(1.0, len(p_values) * p)
    order = np.argsort(p_values, kind="stable")
    assert (np.diff(np.array(corrected)[order]) >= 0).all()


def test_the_bootstrap_agrees_with_scipy_and_with_theory():
    values = np.random.default_rng(5).normal(0.2, 1.0, 400)
    low, high = bootstrap_interval(values[:, None], resamples=4000, seed=3)
    theirs = stats.bootstrap(
        (values,), np.mean, n_resamples=4000, method="percentile", rng=np.random.default_rng(8)
    ).confidence_interval
    error = values.std() / 20
    assert (low[0], high[0]) == pytest.approx((theirs.low, theirs.high), abs=0.15 * error)
    assert (low[0], high[0]) == pytest.approx(
        (values.mean() - 1.96 * error, values.mean() + 1.96 * error), abs=0.15 * error
    )
    assert bootstrap_interval(values[:, None], seed=3) == bootstrap_interval(values[:, None], seed=3)


def test_columns_of_the_bootstrap_do_not_influence_each_other():
    table = np.random.default_rng(0).normal(size=(30, 3))
    table[::2, 1] = np.nan
    table[:, 2] = np.nan
    together = np.array(bootstrap_interval(table, resamples=50))
    alone = np.array([bootstrap_interval(table[:, [column]], resamples=50) for column in range(3)])[..., 0].T
    assert together == pytest.approx(alone, nan_ok=True)
    assert np.isnan(together[:, 2]).all()
    assert not np.isnan(together[:, :2]).any()


def test_the_bootstrap_of_many_users_is_that_of_all_draws_at_once():
    """More draws than are held in memory at a time are made in pieces, from one stream."""
    values = np.random.default_rng(0).normal(size=5000)
    resamples = 1000
    drawn = np.random.default_rng(4).integers(len(values), size=(resamples, len(values)))
    expected = np.quantile(values[drawn].mean(axis=1), [0.025, 0.975])
    low, high = bootstrap_interval(values[:, None], resamples=resamples, seed=4)
    assert (low[0], high[0]) == pytest.approx(expected, abs=1e-12)


def test_the_bootstrap_of_nothing_and_of_nonsense():
    low, high = bootstrap_interval(np.empty((0, 2)))
    assert np.isnan([*low, *high]).all()
    with pytest.raises(ConfigError, match="1 axes"):
        bootstrap_interval(np.zeros(3))
