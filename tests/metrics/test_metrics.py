"""Metrics against an outside library, against tables computed by hand, and against each other."""

import math

import ir_measures
import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ir_measures import RR, P, R, Success, nDCG

from icpe import ConfigError, DataError, Interactions
from icpe.data.popularity import head_mask
from icpe.metrics import evaluate, evaluate_lists
from icpe.ranking import Lists

CONTRACT = ["recall", "ndcg", "recall_head", "recall_niche", "ndcg_head", "ndcg_niche", "coverage", "apt"]
FURTHER = ["precision", "mrr", "hit_rate", "gini", "popularity", "novelty", "balanced_recall", "balanced_ndcg"]
SET_WISE = {"coverage", "gini"}


def log_of(pairs, users, items):
    user, item = np.array(pairs, np.int32).reshape(-1, 2).T
    ids = pl.Series([f"u{code:04}" for code in range(users)]), pl.Series([f"i{code:04}" for code in range(items)])
    return Interactions.from_codes(*ids, user, item)


def lists_of(rows, users=None):
    items = np.array(rows, np.int32)
    users = np.arange(len(items), dtype=np.int32) if users is None else np.array(users, np.int32)
    return Lists(users, items, np.where(items < 0, -np.inf, 0).astype(np.float32))


@st.composite
def cases(draw):
    """Lists of different lengths for some of the users, with a test and a training log."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    users, items, longest = draw(st.integers(1, 12)), draw(st.integers(2, 40)), draw(st.integers(1, 15))
    test = np.argwhere(rng.random((users, items)) < draw(st.sampled_from([0.05, 0.4, 0.9])))
    train = np.argwhere(rng.random((users, items)) < rng.random(items) ** 2)
    chosen = rng.permutation(users)[: draw(st.integers(1, users))]
    if not np.isin(test[:, 0], chosen).any():
        test = np.append(test, [[chosen[0], 0]], axis=0)
    rows = np.full((len(chosen), longest), -1)
    for row in rows:
        length = rng.integers(0, min(longest, items) + 1)
        row[:length] = rng.permutation(items)[:length]
    return lists_of(rows, chosen), log_of(test, users, items), log_of(train, users, items)


def oracle(lists, test, metrics, items=None):
    """Per-user values of ir-measures: user → metric → value; relevant are the test pairs on ``items``."""
    chosen = set(lists.users.tolist())
    pairs = [pair for pair in zip(test.user.tolist(), test.item.tolist(), strict=True) if pair[0] in chosen]
    wanted = [(user, item) for user, item in pairs if items is None or items[item]]
    qrels = [ir_measures.Qrel(str(user), str(item), 1) for user, item in wanted]
    run = [
        ir_measures.ScoredDoc(str(user), str(item), -float(rank))
        for user, row in zip(lists.users.tolist(), lists.items.tolist(), strict=True)
        for rank, item in enumerate(row)
        if item >= 0
    ]
    # A user without any list is unknown to the library, and counts 0 here.
    values = {user: dict.fromkeys(metrics, 0.0) for user, _ in wanted}
    for found in ir_measures.iter_calc(list(metrics), qrels, run) if qrels and run else ():
        values[int(found.query_id)][found.measure] = found.value
    return values


@settings(max_examples=80, deadline=None)
@given(case=cases(), data=st.data())
def test_equals_the_oracle_for_every_user(case, data):
    lists, test, train = case
    n = data.draw(st.integers(1, lists.items.shape[1]))
    found = evaluate_lists(lists, test, train, [n], per_user=True)
    head = head_mask(train.item_counts)
    ours = {"recall": R @ n, "ndcg": nDCG @ n, "precision": P @ n, "mrr": RR @ n, "hit_rate": Success @ n}
    for suffix, mask in (("", None), ("_head", head), ("_niche", ~head)):
        names = {name: metric for name, metric in ours.items() if not suffix or name in ("recall", "ndcg")}
        truth = oracle(lists, test, names.values(), mask)
        assert found.values[f"users{suffix}"] == len(truth)
        for name, metric in names.items():
            column = dict(found.per_user.select("user_id", f"{name}{suffix}@{n}").drop_nulls().rows())
            expected = {f"u{user:04}": values[metric] for user, values in truth.items()}
            assert column == pytest.approx(expected, abs=1e-9)
            average = sum(expected.values()) / len(expected) if expected else math.nan
            assert found.values[f"{name}{suffix}@{n}"] == pytest.approx(average, abs=1e-9, nan_ok=True)


# Ten items, so the head is the two with most training pairs: 0 (four pairs) and 1 (three). Items 2 and 3 have one
# pair; 4 to 9 have none. Five users, 9 training pairs.
TRAIN = [(0, 0), (1, 0), (2, 0), (3, 0), (0, 1), (1, 1), (2, 1), (3, 2), (4, 3)]
#        user 0         user 1  user 2 has no test item  user 3  user 4
TEST = [(0, 2), (0, 3), (0, 4), (1, 1), (3, 0), (3, 1), (3, 5), (4, 9)]
LISTS = [
    [2, 0, 4, 1],  # user 0 wants 2 3 4: hits at 1 and 3
    [5, 1, 6, 7],  # user 1 wants 1: hit at 2
    [8, 8, 8, 8],  # user 2 wants nothing: not looked at
    [1, 5, -1, -1],  # user 3 wants 0 1 5: hits at 1 and 2, the list is short
    [0, 2, 3, 1],  # user 4 wants 9: no hit
]
D2, D3 = 1 / math.log2(3), 1 / math.log2(4)  # discounts of ranks 2 and 3; that of rank 1 is 1, that of 4 is not needed


def by_hand():
    return log_of(TEST, 5, 10), log_of(TRAIN, 5, 10)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("users", 4),
        ("users_head", 2),  # users 1 and 3
        ("users_niche", 3),  # users 0, 3 and 4
        ("recall@4", (2 / 3 + 1 + 2 / 3 + 0) / 4),
        ("recall@2", (1 / 3 + 1 + 2 / 3 + 0) / 4),
        ("recall_head@4", (1 / 1 + 1 / 2) / 2),
        ("recall_niche@4", (2 / 3 + 1 / 1 + 0) / 3),
        ("precision@4", (2 + 1 + 2 + 0) / 16),
        ("hit_rate@4", 3 / 4),
        ("hit_rate@1", 2 / 4),
        ("mrr@4", (1 + 1 / 2 + 1 + 0) / 4),
        ("mrr@1", (1 + 0 + 1 + 0) / 4),
        ("ndcg@4", ((1 + D3) / (1 + D2 + D3) + D2 / 1 + (1 + D2) / (1 + D2 + D3) + 0) / 4),
        ("ndcg@2", (1 / (1 + D2) + D2 + 1 + 0) / 4),  # two places, so two items are ideal
        ("ndcg_head@4", (D2 / 1 + 1 / (1 + D2)) / 2),
        ("ndcg_niche@4", ((1 + D3) / (1 + D2 + D3) + D2 / 1 + 0) / 3),  # the niche item of user 3 stays at rank 2
        ("coverage@4", 8 / 10),  # 0 1 2 3 4 5 6 7; the 8 of user 2 does not count
        ("coverage@1", 4 / 10),  # 2 5 1 0
        ("apt@4", (2 / 4 + 3 / 4 + 1 / 2 + 2 / 4) / 4),
        ("apt@1", (1 + 1 + 0 + 0) / 4),
        ("popularity@4", ((1 + 4 + 0 + 3) / 4 + (0 + 3 + 0 + 0) / 4 + (3 + 0) / 2 + (4 + 1 + 1 + 3) / 4) / 4),
        # −log2(n_i / 5), where no training pair counts like one: items 2, 5, 1, 0 have 1, (0→)1, 3 and 4
        ("novelty@1", (math.log2(5) + math.log2(5) + math.log2(5 / 3) + math.log2(5 / 4)) / 4),
        # exposures 0 0 | 1 1 1 1 | 2 2 2 | 4 of items 8 9 | 3 4 6 7 | 0 2 5 | 1: Σ j·x_j = 18 + 48 + 40 = 106, Σ x = 14
        ("gini@4", 2 * 106 / (10 * 14) - 11 / 10),
        ("gini@1", 2 * (7 + 8 + 9 + 10) / (10 * 4) - 11 / 10),
    ],
)
def test_by_hand(name, value):
    test, train = by_hand()
    assert evaluate_lists(lists_of(LISTS), test, train, [4, 1, 2]).values[name] == pytest.approx(value, abs=1e-12)


def test_names_are_those_of_the_contract():
    test, train = by_hand()
    found = evaluate_lists(lists_of(LISTS), test, train, [2, 4], per_user=True)
    names = {f"{name}@{n}" for name in CONTRACT + FURTHER for n in (2, 4)}
    numbers = {"users", "users_head", "users_niche", "balanced_power", "balanced_pairs"}
    assert set(found.values) == names | numbers
    assert set(found.per_user.columns) == {"user_id"} | {name for name in names if name.split("@")[0] not in SET_WISE}
    assert all(type(value) in (int, float) for value in found.values.values())
    assert evaluate_lists(lists_of(LISTS), test, train, [2]).per_user is None


def test_per_user_rows_are_the_evaluated_users_and_average_to_the_values():
    test, train = by_hand()
    found = evaluate_lists(lists_of(LISTS), test, train, [4], per_user=True)
    assert found.per_user["user_id"].to_list() == ["u0000", "u0001", "u0003", "u0004"]
    assert found.per_user["recall_head@4"].to_list() == [None, 1.0, 0.5, None]
    for name in found.per_user.columns[1:]:
        assert found.per_user[name].mean() == pytest.approx(found.values[name], abs=1e-12)


@settings(max_examples=50, deadline=None)
@given(case=cases(), seed=st.integers(0, 99))
def test_one_pass_equals_separate_passes_in_any_order_of_users(case, seed):
    lists, test, train = case
    lengths = list(range(1, lists.items.shape[1] + 1))
    together = evaluate_lists(lists, test, train, lengths).values
    order = np.random.default_rng(seed).permutation(len(lists))
    for n in lengths:
        cut = Lists(lists.users[order], lists.items[order, :n], lists.scores[order, :n])
        alone = evaluate_lists(cut, test, train, [n]).values
        np.testing.assert_equal(alone, {name: together[name] for name in alone})  # to the last bit, and NaN is NaN


@settings(max_examples=50, deadline=None)
@given(case=cases())
def test_head_and_niche_add_up(case):
    """Hits and relevant items of the two groups are those of all items."""
    lists, test, train = case
    n = lists.items.shape[1]
    frame = evaluate_lists(lists, test, train, [n], per_user=True).per_user
    head = head_mask(train.item_counts)
    users = frame["user_id"].str.slice(1).cast(int).to_numpy()
    wanted = [np.bincount(test.user[mask[test.item]], minlength=len(test.users))[users] for mask in (head, ~head)]
    hits = [
        frame[f"recall_{g}@{n}"].fill_null(0).to_numpy() * of for g, of in zip(("head", "niche"), wanted, strict=True)
    ]
    np.testing.assert_allclose(sum(hits), frame[f"recall@{n}"].to_numpy() * sum(wanted), atol=1e-9)
    np.testing.assert_allclose(sum(hits), frame[f"precision@{n}"].to_numpy() * n, atol=1e-9)
    for of, group in zip(wanted, ("head", "niche"), strict=True):
        assert frame[f"recall_{group}@{n}"].is_null().to_list() == (of == 0).tolist()


@settings(max_examples=50, deadline=None)
@given(case=cases())
def test_ranges(case):
    lists, test, train = case
    n = lists.items.shape[1]
    values = evaluate_lists(lists, test, train, [n]).values
    for name in set(CONTRACT + FURTHER) - {"popularity", "novelty"}:
        assert math.isnan(values[f"{name}@{n}"]) or 0 <= values[f"{name}@{n}"] <= 1 + 1e-12
    assert 0 <= values[f"popularity@{n}"] <= train.item_counts.max()
    assert 0 <= values[f"novelty@{n}"] <= math.log2(len(train.users)) + 1e-12


def test_users_without_test_items_change_nothing():
    test, train = by_hand()
    everybody = evaluate_lists(lists_of(LISTS), test, train, [4]).values
    rows = [0, 1, 3, 4]
    assert evaluate_lists(lists_of([LISTS[row] for row in rows], rows), test, train, [4]).values == everybody


def test_exposure_at_its_ends():
    """Everything shown equally often, one item for all, and nothing at all."""
    users, items = 5, 10
    test = log_of([(user, 9) for user in range(users)], users, items)
    train = log_of(TRAIN, users, items)
    even = evaluate_lists(lists_of(np.arange(10).reshape(5, 2)), test, train, [2]).values
    assert (even["coverage@2"], even["gini@2"]) == (1.0, pytest.approx(0, abs=1e-12))
    assert even["apt@2"] == pytest.approx(8 / 10)
    one = evaluate_lists(lists_of([[0]] * 5), test, train, [1]).values
    assert (one["coverage@1"], one["apt@1"], one["popularity@1"]) == (0.1, 0.0, 4.0)
    assert one["gini@1"] == pytest.approx(1 - 1 / 10)
    none = evaluate_lists(lists_of([[-1]] * 5), test, train, [1]).values
    assert {none[f"{name}@1"] for name in ("coverage", "gini", "apt", "popularity", "novelty", "recall", "mrr")} == {
        0.0
    }
    cold = evaluate_lists(lists_of([[9]] * 5), test, train, [1]).values
    assert (cold["apt@1"], cold["recall_niche@1"], cold["popularity@1"]) == (1.0, 1.0, 0.0)
    assert cold["novelty@1"] == pytest.approx(math.log2(5))
    assert math.isnan(cold["recall_head@1"])
    assert cold["users_head"] == 0


def test_items_without_training_pairs_are_niche_though_they_come_first():
    """Item 0 has no pair and the smallest code; the head of five items is the one with most pairs."""
    train, test = log_of([(0, 4), (1, 4), (0, 3)], 2, 5), log_of([(0, 0), (1, 4)], 2, 5)
    values = evaluate_lists(lists_of([[0], [4]]), test, train, [1]).values
    assert (values["users_head"], values["users_niche"], values["apt@1"]) == (1, 1, 0.5)
    assert (values["recall_head@1"], values["recall_niche@1"]) == (1.0, 1.0)


class Matrix:
    def __init__(self, scores):
        self.scores = scores.astype(np.float32)
        self.users, self.items = scores.shape

    def block(self, users, start, stop):
        return self.scores[users, start:stop]


def test_evaluate_ranks_the_users_of_the_test_part_and_hides():
    test, train = by_hand()
    scores = np.tile(np.arange(10.0, 0, -1), (5, 1))  # item 0 is everybody's best
    found = evaluate(Matrix(scores), test, train, n=[2, 3], per_user=True)
    assert found.values["users"] == 4
    # Without what they have, the users see 2 3 4, 2 3 4, 1 3 4 and 0 1 2.
    assert found.per_user["recall@3"].to_list() == pytest.approx([1, 0, 1 / 3, 0])
    assert found.per_user["recall@2"].to_list() == pytest.approx([2 / 3, 0, 1 / 3, 0])
    valid = log_of([(0, 2)], 5, 10)  # then user 0 sees 3 4 5
    both = evaluate(Matrix(scores), test, train, hide=[train, valid], n=[3], per_user=True)
    assert both.per_user["recall@3"].to_list() == pytest.approx([2 / 3, 0, 1 / 3, 0])
    bare = evaluate(Matrix(scores), test, train, hide=[], n=[3], per_user=True)
    assert bare.per_user["recall@3"].to_list() == pytest.approx([1 / 3, 1, 2 / 3, 0])


@pytest.mark.parametrize("n", [[], [0], [1.5], ["20"], [-3]])
def test_lengths_are_checked(n):
    test, train = by_hand()
    with pytest.raises(ConfigError, match="expected list lengths"):
        evaluate_lists(lists_of(LISTS), test, train, n)


def test_what_does_not_fit_is_named():
    test, train = by_hand()
    with pytest.raises(ConfigError, match="n is 5, but the lists have 4"):
        evaluate_lists(lists_of(LISTS), test, train, [5])
    with pytest.raises(DataError, match="no user of the lists has a test item"):
        evaluate_lists(lists_of([[1]], [2]), test, train, [1])
    with pytest.raises(DataError, match="user 3 .* more than one list"):
        evaluate_lists(lists_of([[1], [2], [4]], [3, 0, 3]), test, train, [1])
    with pytest.raises(DataError, match="test has .* same split"):
        evaluate_lists(lists_of(LISTS), test, log_of(TRAIN, 5, 11), [1])
    for rows, users, says in (
        ([[10]], [0], "item codes from 10 to 10; expected -1 to 9"),
        ([[-2]], [0], "item codes from -2 to -2"),
        ([[1]], [7], "user codes from 7 to 7; expected 0 to 4"),
        ([[1], [2]], [-1, 0], "user codes from -1 to 0"),
    ):
        with pytest.raises(DataError, match=says):
            evaluate_lists(lists_of(rows, users), test, train, [1])
