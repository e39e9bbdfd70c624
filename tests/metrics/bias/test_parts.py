"""The parts of the bias metrics against SciPy and cases computed by hand."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, stats
from scipy.spatial.distance import jensenshannon

from icpe.metrics.bias.attention import attention, expected_exposure, item_attention, wanted_attention
from icpe.metrics.bias.calibration import band_shares, jensen_shannon, popularity_bands
from icpe.metrics.bias.concentration import coverage, entropy, gini, lorenz_curve
from icpe.metrics.bias.parity import parity_gap
from icpe.metrics.bias.resampling import draws, interval
from icpe.metrics.bias.user_groups import Profiles, UserGroups
from icpe.metrics.exposure import gini as one_gini
from icpe.metrics.power_law import PowerLaw

COUNTS = st.lists(st.integers(0, 50), min_size=1, max_size=30).map(np.array)


@given(counts=COUNTS)
def test_entropy_equals_scipy(counts):
    if counts.sum() == 0:
        assert entropy(counts) == 0
        return
    assert entropy(counts) == pytest.approx(stats.entropy(counts, base=2), abs=1e-12)
    assert 0 <= entropy(counts) <= math.log2(len(counts)) + 1e-12


@given(counts=COUNTS)
def test_rows_equal_single_exposures_and_the_area_of_the_lorenz_curve(counts):
    rows = np.stack([counts, counts[::-1]]).astype(np.float32)
    assert gini(rows) == pytest.approx([one_gini(counts)] * 2, abs=1e-6)
    assert coverage(rows) == pytest.approx([np.mean(counts > 0)] * 2)
    curve = lorenz_curve(counts, pieces=len(counts))
    assert (np.diff(curve) >= -1e-12).all()
    if counts.sum():
        # The trapezoid rule is exact for the polygon, and the doubled area is the Gini coefficient.
        assert 1 - 2 * np.trapezoid(curve, dx=1 / len(counts)) == pytest.approx(one_gini(counts), abs=1e-9)


@given(
    st.lists(
        st.tuples(*[st.integers(0, 9)] * 6).filter(lambda row: sum(row[:3]) and sum(row[3:])), min_size=1, max_size=5
    )
)
def test_jensen_shannon_equals_scipy(rows):
    table = np.array(rows, float)
    p, q = (part / part.sum(axis=1, keepdims=True) for part in (table[:, :3], table[:, 3:]))
    expected = [jensenshannon(a, b, base=2) ** 2 for a, b in zip(p, q, strict=True)]
    assert jensen_shannon(p, q) == pytest.approx(np.nan_to_num(expected), abs=1e-9)


def test_bands_by_hand():
    # 100 interactions: only the item with 30 begins before 20; those with 10 and 5 begin after 80.
    assert popularity_bands(np.array([15, 15, 30, 25, 10, 5, 0])).tolist() == [1, 1, 0, 1, 2, 2, 2]
    counts = np.array([10, 9, 8, 7, 6, 5, 5, 0])
    before = np.cumsum(counts) - counts
    assert popularity_bands(counts).tolist() == [0 if at < 10 else 1 if at < 40 else 2 for at in before[:-1]] + [2]
    assert band_shares(np.array([[0, 2, 2, -1]])).tolist() == [[pytest.approx(1 / 3), 0, pytest.approx(2 / 3)]]
    assert band_shares(np.array([[-1, -1]])).tolist() == [[0, 0, 0]]


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 2**32 - 1))
def test_power_equals_the_poisson_regression(seed):
    rng = np.random.default_rng(seed)
    counts = rng.integers(1, 60, 40)
    shown = rng.poisson(counts ** rng.uniform(0, 1.8))
    found = PowerLaw.of(counts).power(np.array([np.average(np.log(counts), weights=shown)]), -10, 10)
    logs = np.log(counts)

    def loss(line):  # the negative log-likelihood of Poisson counts with the mean exp(a + b · log n)
        return np.exp(line[0] + line[1] * logs).sum() - shown @ (line[0] + line[1] * logs)

    peer = optimize.minimize(
        loss, [0.0, 1.0], method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-12, "maxiter": 9999}
    )
    assert found[0] == pytest.approx(peer.x[1], abs=1e-5)


def test_power_at_its_limits():
    law = PowerLaw.of(np.array([0, 1, 1, 8]))
    assert law.power(np.array([0.0, math.log(8), math.nan]), -10, 10).tolist() == [
        -10,
        10,
        pytest.approx(math.nan, nan_ok=True),
    ]
    assert law.power(law.mean_log(np.array([-3.0, 0.0, 1.0, 4.5])), -10, 10) == pytest.approx([-3, 0, 1, 4.5], abs=1e-9)
    assert np.isnan(PowerLaw.of(np.array([4, 4])).power(np.array([math.log(4)]), -10, 10)).all()


def test_attention_by_hand():
    second = 1 / math.log2(3)
    rows = np.array([[3, 1], [1, -1], [-1, -1]])
    assert attention(rows) == pytest.approx(np.array([[1, second], [1 + second, 0], [0, 0]]) / (1 + second))
    assert item_attention(rows, 5) == pytest.approx([0, (1 + second / (1 + second)) / 3, 0, 1 / (1 + second) / 3, 0])


@pytest.mark.parametrize(
    ("relevant", "size", "n"), [(0, 5, 3), (1, 5, 3), (2, 5, 3), (3, 5, 3), (4, 5, 3), (5, 5, 3), (2, 2, 3)]
)
def test_wanted_attention_is_the_mean_over_all_ideal_lists(relevant, size, n):
    from itertools import permutations

    total, length = np.zeros(size), min(n, size)
    orders = [a + b for a in permutations(range(relevant)) for b in permutations(range(relevant, size))]
    for order in orders:
        total += item_attention(np.array([order[:length]]), size)
    wanted, other = wanted_attention(np.array([relevant]), size, n)
    expected = [wanted[0]] * relevant + [other[0]] * (size - relevant)
    assert total / len(orders) == pytest.approx(expected)


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=9))
def test_loss_is_disparity_minus_relevance_plus_a_constant(pairs):
    shown, wanted = np.array(pairs).T
    found = expected_exposure(shown, wanted)
    assert found.loss == pytest.approx(found.disparity - found.relevance + (wanted**2).sum(), abs=1e-9)
    assert expected_exposure(wanted, wanted).loss == 0


@given(*[st.just(0.0) | st.floats(1e-6, 1)] * 2)
def test_parity_is_the_coefficient_of_variation(head, niche):
    found = parity_gap(np.array([head]), np.array([niche]))[0]
    if head + niche == 0:
        assert math.isnan(found)
    else:
        assert found == pytest.approx(np.std([head, niche]) / np.mean([head, niche]), rel=1e-6, abs=1e-9)


def test_fifths_of_users():
    sizes, heads = np.array([4] * 10 + [0]), np.array([3, 0, 1, 1, 4, 2, 2, 2, 2, 1, 0])
    groups = UserGroups.of(Profiles(sizes, heads, np.arange(11.0)))
    # Of three users with one head item, the one whose items are least popular is a niche user.
    assert groups.codes.tolist() == [2, 0, 0, 1, 2, 1, 1, 1, 1, 1, -1]
    for users in (1, 2):
        ones = np.ones(users, int)
        assert set(UserGroups.of(Profiles(ones, ones, ones * 1.0)).codes.tolist()) == {1}


def test_resamples_draw_all_lists_again_and_are_the_same_each_time():
    first, again = (np.concatenate(list(draws(50, 40, seed=3))) for _ in range(2))
    assert first.shape == (40, 50)
    assert (first.sum(axis=1) == 50).all()
    assert (first == again).all()
    assert (first != np.concatenate(list(draws(50, 40, seed=4)))).any()


def test_intervals_of_means_agree_with_the_t_interval():
    values = np.random.default_rng(0).normal(3, 1, 400)
    times = np.concatenate(list(draws(len(values), 2000)))
    low, high = interval(values.mean(), times @ values / len(values))
    expected = stats.t.interval(0.95, len(values) - 1, values.mean(), stats.sem(values))
    assert (low, high) == pytest.approx(expected, abs=0.02)


def test_an_interval_needs_a_value():
    assert interval(math.nan, np.ones(5)) is None
    assert interval(1.0, np.array([math.nan, 1.0])) is None
    assert interval(1.0, np.array([math.nan, 1.0, 1.0])) == (1.0, 1.0)
