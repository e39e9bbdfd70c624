"""Balanced metrics against plain ones, against cases computed by hand, and against naive computations."""

import math
import warnings

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from icpe import MF, ConfigError, Interactions, Normal, evaluate, split
from icpe.metrics import balanced, evaluate_lists
from icpe.metrics.balanced import Wanted, fitted_power, item_weights
from icpe.metrics.hits import Hits
from icpe.ranking import Lists
from icpe.runs.config import RunConfig
from icpe.runs.run import Run


def log_of(pairs, users, items):
    user, item = np.array(pairs, np.int32).reshape(-1, 2).T
    return Interactions.from_codes(pl.Series(range(users)), pl.Series(range(items)), user, item)


def lists_of(rows, users=None):
    items = np.array(rows, np.int32)
    users = np.arange(len(items)) if users is None else np.array(users)
    return Lists(users.astype(np.int32), items, np.zeros(items.shape, np.float32))


def counted(counts, users=40):
    """A training log in which item i has ``counts[i]`` pairs."""
    return log_of([(user, item) for item, count in enumerate(counts) for user in range(count)], users, len(counts))


@st.composite
def cases(draw):
    """Lists for some users, a test part and a skewed training part."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    users, items, n = draw(st.integers(1, 12)), draw(st.integers(3, 30)), draw(st.integers(1, 8))
    train = np.argwhere(rng.random((40, items)) < rng.random(items) ** 2)
    test = np.argwhere(rng.random((users, items)) < draw(st.sampled_from([0.1, 0.5])))
    chosen = rng.permutation(users)[: draw(st.integers(1, users))]
    test = np.append(test, [[chosen[0], 0]], axis=0)
    rows = np.full((len(chosen), n), -1)
    for row in rows:
        length = rng.integers(0, min(n, items) + 1)
        row[:length] = rng.permutation(items)[:length]
    return lists_of(rows, chosen), log_of(test, 40, items), log_of(train, 40, items)


# Three items with 1, 4 and 16 training pairs. With power 1 the weights are in the ratio 16 : 4 : 1.
TRAIN = counted([1, 4, 16])
TEST = log_of([(0, 0), (0, 2), (1, 1), (1, 2), (2, 2)], 40, 3)  # pairs count 16 1 | 4 1 | 1, their sum is 23
LISTS = lists_of([[2, 0], [2, 0], [1, 2]])
D2 = 1 / math.log2(3)


def by_hand(n, power=1.0):
    weights = item_weights(TRAIN, TEST, power, clip=100).weights
    wanted = Wanted.of(LISTS.users, TEST, weights, 2)
    gain = balanced.gains(Hits.find(LISTS.users, LISTS.items, TEST), weights, 2)
    return {name: getattr(balanced, name)(gain, wanted, n) for name in ("recall", "ndcg")}, wanted


def test_by_hand():
    both, wanted = by_hand(2)
    assert wanted.total * 23 / 5 == pytest.approx([17, 5, 1])
    assert wanted.share == pytest.approx(np.array([17 / 2, 5 / 2, 1]) / 4)  # 12 is the sum of the three means
    assert both["recall"] == pytest.approx([1, 1 / 5, 1])
    # User 0 has the item of weight 16 at rank 2; ideally it is at rank 1 and the item of weight 1 at rank 2.
    assert both["ndcg"] == pytest.approx([(1 + 16 * D2) / (16 + D2), 1 / (4 + D2), D2])
    assert np.mean(wanted.share * both["recall"]) == pytest.approx((17 / 2 + 1 / 2 + 1) / 12)
    first, _ = by_hand(1)
    assert first["recall"] == pytest.approx([1 / 17, 1 / 5, 0])
    assert first["ndcg"] == pytest.approx([1 / 16, 1 / 4, 0])  # one place, ideally of the heaviest item


def test_weights_by_hand():
    found = item_weights(TRAIN, TEST, power=1, clip=100)
    assert found.weights * 23 / 5 == pytest.approx([16, 4, 1])
    assert found.power == 1
    assert found.effective_size == pytest.approx(23**2 / (256 + 16 + 3))
    root = item_weights(TRAIN, TEST, power=0.5, clip=100)
    assert root.weights / root.weights[2] == pytest.approx([4, 2, 1])


def test_clip_by_hand():
    """The median pair has the weight of item 2, so no item counts more than ``clip`` times that."""
    found = item_weights(TRAIN, TEST, power=1, clip=3)
    assert found.weights / found.weights[2] == pytest.approx([3, 3, 1])
    assert found.weights[TEST.item].mean() == pytest.approx(1)
    assert found.effective_size == pytest.approx(9**2 / (9 + 9 + 3))
    assert item_weights(TRAIN, TEST, power=1, clip=1).weights.tolist() == [1, 1, 1]


@settings(max_examples=50, deadline=None)
@given(case=cases(), power=st.floats(0, 2), clip=st.floats(1, 50))
def test_clip_bounds_the_effective_size(case, power, clip):
    _, test, train = case
    found = item_weights(train, test, power, clip)
    assert found.weights[test.item].mean() == pytest.approx(1)
    assert len(test) / (2 * clip) <= found.effective_size * (1 + 1e-9)
    assert found.effective_size <= len(test) * (1 + 1e-9)


def test_an_item_without_training_pairs_counts_like_one_with_a_single_pair():
    weights = item_weights(counted([0, 1, 5]), log_of([(0, 0), (0, 1), (0, 2)], 40, 3), power=1).weights
    assert weights[0] == weights[1] > weights[2]


@settings(max_examples=50, deadline=None)
@given(case=cases())
def test_equal_propensities_give_the_plain_metrics_to_the_last_bit(case):
    lists, test, _ = case
    n = lists.items.shape[1]
    train = counted([7] * len(test.items))
    found = evaluate_lists(lists, test, train, range(1, n + 1), per_user=True)
    for length in range(1, n + 1):
        for name in (f"recall@{length}", f"ndcg@{length}"):
            assert found.values[f"balanced_{name}"] == found.values[name]
            assert found.per_user[f"balanced_{name}"].equals(found.per_user[name].alias(f"balanced_{name}"))
    assert found.values["balanced_power"] == 0
    assert found.values["balanced_pairs"] == pytest.approx(len(test))


def naive(lists, test, weights, n):
    """Self-normalised inverse propensity weighting, pair by pair; NDCG user by user."""
    top = bottom = dcg_top = 0.0
    for user, row in zip(lists.users.tolist(), lists.items[:, :n].tolist(), strict=True):
        relevant = test.item[test.user == user].tolist()
        for item in relevant:
            top += weights[item] * (item in row) / len(relevant)
            bottom += weights[item] / len(relevant)
        if relevant:
            dcg = sum(weights[item] / math.log2(rank + 2) for rank, item in enumerate(row) if item in relevant)
            heaviest = sorted((weights[item] for item in relevant), reverse=True)[:n]
            ideal = sum(weight / math.log2(rank + 2) for rank, weight in enumerate(heaviest))
            dcg_top += sum(weights[item] for item in relevant) / len(relevant) * dcg / ideal
    return top / bottom, dcg_top / bottom


@settings(max_examples=80, deadline=None)
@given(case=cases(), data=st.data())
def test_equals_the_naive_estimator(case, data):
    lists, test, train = case
    n = data.draw(st.integers(1, lists.items.shape[1]))
    values = evaluate_lists(lists, test, train, [n, lists.items.shape[1]]).values
    raw = np.maximum(train.item_counts, 1.0) ** -values["balanced_power"]
    raw = np.minimum(raw, balanced.CLIP * np.median(raw[test.item]))
    found = values[f"balanced_recall@{n}"], values[f"balanced_ndcg@{n}"]
    assert found == pytest.approx(naive(lists, test, raw, n), abs=1e-12)
    pairs = raw[test.item]
    assert values["balanced_pairs"] == pytest.approx(pairs.sum() ** 2 / (pairs**2).sum())


def test_several_settings_at_once_equal_each_alone():
    """Gains may have leading axes: here lists of four settings."""
    rng = np.random.default_rng(0)
    test = log_of(np.argwhere(rng.random((9, 20)) < 0.3), 9, 20)
    users, weights = np.flatnonzero(test.user_counts), rng.random(20) + 0.1
    wanted = Wanted.of(users, test, weights, 5)
    items = np.stack([[rng.permutation(20)[:5] for _ in users] for _ in range(4)])
    every = np.stack([balanced.gains(Hits.find(users, one, test), weights, 5) for one in items])
    for metric in (balanced.recall, balanced.ndcg):
        together = metric(every, wanted, 3)
        assert together.shape == (4, len(users))
        for one, alone in zip(together, every, strict=True):
            assert one.tolist() == metric(alone, wanted, 3).tolist()


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32), power=st.floats(0.1, 1.8))
def test_the_power_maximises_the_poisson_likelihood(seed, power):
    rng = np.random.default_rng(seed)
    counts = np.ceil(100 * rng.random(60) ** 3).astype(np.int64)
    held = rng.poisson(400 * counts**power / (counts**power).sum())
    logs = np.log(counts) - np.log(counts).mean()  # centred: it changes the intercept only, and the search is easy

    def minus_log_likelihood(values):
        rate = values[0] + values[1] * logs
        return float(np.exp(rate).sum() - held @ rate) / len(held)

    best = minimize(minus_log_likelihood, [np.log(held.mean()), 0.0], jac="3-point", options={"gtol": 1e-8})
    assert fitted_power(counts, held) == pytest.approx(min(max(best.x[1], 0), 2), abs=1e-4)


def test_the_power_at_its_ends():
    counts = np.array([1, 4, 16, 64])
    assert fitted_power(counts, counts * 3) == pytest.approx(1)
    assert fitted_power(counts, np.full(4, 9)) == 0
    assert fitted_power(counts, np.array([9, 5, 2, 1])) == 0  # more held out of rare items: no propensity below 0
    assert fitted_power(counts, np.array([0, 0, 0, 9])) == 2
    assert fitted_power(np.full(4, 7), np.array([1, 2, 3, 4])) == 0  # equal counts explain nothing
    assert fitted_power(counts, np.zeros(4, int)) == 0
    assert fitted_power(np.array([0, 4, 16]), np.array([1, 4, 16])) == pytest.approx(1)  # 0 counts like 1


def test_the_power_tells_ordinary_parts_from_uniform_ones(skewed):
    ordinary, uniform = split.random(skewed, seed=0), split.unbiased(skewed, seed=0)
    assert item_weights(ordinary.train, ordinary.test).power == pytest.approx(1, abs=0.15)
    assert item_weights(uniform.train, uniform.test).power < 0.15


def test_nothing_held_out():
    found = item_weights(TRAIN, TEST.keep(np.zeros(len(TEST), bool)))
    assert (found.weights.tolist(), found.effective_size) == ([1, 1, 1], 0)


def test_wrong_settings_are_named():
    with pytest.raises(ConfigError, match="power is -1; expected a number of at least 0, or None"):
        item_weights(TRAIN, TEST, power=-1)
    with pytest.raises(ConfigError, match="power is nan"):
        item_weights(TRAIN, TEST, power=math.nan)
    with pytest.raises(ConfigError, match=r"clip is 0\.5; expected a number of at least 1"):
        item_weights(TRAIN, TEST, clip=0.5)


def test_few_pairs_are_warned_about_once_for_each_evaluation(skewed, tmp_path):
    parts = split.random(skewed, seed=0, train=0.96, valid=0.02)
    assert len(parts.test) < 100
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = Normal(MF(dim=4)).fit(parts.train, parts.valid, epochs=2)  # validations do not warn
    with pytest.warns(UserWarning, match=r"tell as much as \d+ of equal weight.* Hold out more") as found:
        evaluate(model, parts)
    assert len(found) == 1
    settings = {"kind": "random", "train": 0.96, "valid": 0.02}
    skewed.write(tmp_path / "log.csv")
    run = Run(RunConfig(data={"source": str(tmp_path / "log.csv")}, split=settings, train={"epochs": 2}), None)
    with pytest.warns(UserWarning, match="the balanced metrics are uncertain") as found:
        run.train()
    assert len(found) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        balanced.warn_if_few(100, 400)
