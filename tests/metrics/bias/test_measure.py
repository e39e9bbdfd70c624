"""All bias metrics together: against definitions written out in loops, a case by hand, and fresh samples of users."""

import math
from itertools import pairwise

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import jensenshannon

from icpe import Interactions
from icpe.data.popularity import head_mask
from icpe.metrics.bias import UserGroups, measure_bias
from icpe.metrics.bias.calibration import popularity_bands
from icpe.metrics.exposure import exposure
from icpe.ranking import Lists


def log_of(pairs, users, items):
    user, item = np.array(sorted(pairs), np.int32).reshape(-1, 2).T
    ids = pl.Series([f"u{code:04}" for code in range(users)]), pl.Series([f"i{code:04}" for code in range(items)])
    return Interactions.from_codes(*ids, user, item)


def lists_of(rows, users):
    items = np.array(rows, np.int32)
    return Lists(np.array(users, np.int32), items, np.where(items < 0, -np.inf, 0).astype(np.float32))


def world(seed, users=12, items=25, n=4, full=False):
    """A log, lists and a test part. Some users lack a list, a profile or test items, and some lists are short."""
    rng = np.random.default_rng(seed)
    taste = rng.random(items) ** 2
    log = {(int(u), int(i)) for u, i in np.argwhere(rng.random((users, items)) < taste) if full or u != 1}
    test = {(int(u), int(i)) for u, i in np.argwhere(rng.random((users, items)) < 0.2) if full or u % 4} - log
    log |= {(0, 0)}
    test = (test | {(3, items - 1)}) - log
    chosen = np.sort(rng.permutation(users)[: users if full else users - 2])
    rows = np.stack([rng.choice(items, n, replace=False, p=taste / taste.sum()) for _ in chosen])
    if not full:
        rows[0, 2:] = -1
    return log_of(log, users, items), lists_of(rows, chosen), log_of(test, users, items)


def oracle(log, lists, test):
    """The metrics by name, one user and one item at a time."""
    n, items = lists.items.shape[1], len(log.items)
    head = {int(i) for i in np.flatnonzero(head_mask(log.item_counts))}
    counts, bands = log.item_counts.tolist(), popularity_bands(log.item_counts).tolist()
    profile, wanted = (
        {u: {int(i) for i in part.item[part.user == u]} for u in range(len(log.users))} for part in (log, test)
    )
    rows = {u: [i for i in row if i >= 0] for u, row in zip(lists.users.tolist(), lists.items.tolist(), strict=True)}
    gains = [1 / math.log2(r + 1) for r in range(1, n + 1)]
    niche = {u: [i not in head for i in row] for u, row in rows.items()}
    found = {
        "aclt": np.mean([sum(one) for one in niche.values()]),
        "weighted_apt": np.mean([np.average(one, weights=gains[: len(one)]) for one in niche.values()]),
    }
    for name, part in (("pop_rsp", None), ("pop_reo", wanted)):
        chances = []
        for group in (head, set(range(items)) - head):
            above = sum(
                len(group & set(row) & (set(range(items)) if part is None else part[u])) for u, row in rows.items()
            )
            below = sum(len(group - profile[u]) if part is None else len(group & part[u]) for u in rows)
            chances.append(above / below if below else math.nan)
        found[name] = np.std(chances) / np.mean(chances) if sum(chances) else math.nan
    with_profile = [u for u in rows if profile[u]]
    share = {u: len(profile[u] & head) / len(profile[u]) for u in profile if profile[u]}
    before = {u: np.mean([counts[i] for i in profile[u]]) for u in share}
    order = sorted(share, key=lambda u: (share[u], before[u], u))
    fifth = math.floor(len(order) / 5 + 0.5)
    parts = dict(
        zip(
            UserGroups.NAMES,
            (order[:fifth], order[fifth : len(order) - fifth], order[len(order) - fifth :]),
            strict=True,
        )
    )
    jsd = {}
    for u in with_profile:
        p, q = (
            [sum(bands[i] == band for i in part) / len(part) for band in range(3)] for part in (profile[u], rows[u])
        )
        jsd[u] = np.nan_to_num(jensenshannon(p, q, base=2)) ** 2
    for end, members in {"": with_profile, **{f"_{name}": part for name, part in parts.items()}}.items():
        chosen = [u for u in members if u in with_profile]
        found[f"popularity_jsd{end}"] = np.mean([jsd[u] for u in chosen]) if chosen else math.nan
        shown, used = (
            np.mean([one[u] for u in chosen]) if chosen else math.nan
            for one in ({u: np.mean([counts[i] for i in rows[u]]) for u in rows}, before)
        )
        found[f"popularity_lift{end}"] = (shown - used) / used
    evaluated = [u for u in rows if wanted[u]]
    e, ideal = np.zeros(items), np.zeros(items)
    for u in evaluated:
        for gain, i in zip(gains, rows[u], strict=False):
            e[i] += gain / sum(gains[: len(rows[u])]) / len(evaluated)
        m = len(wanted[u])
        for i in range(items):
            first = sum(gains[: min(m, n)]) / sum(gains)
            ideal[i] += (first / m if i in wanted[u] else (1 - first) / (items - m)) / len(evaluated)
    return found | {"ee_d": e @ e, "ee_r": 2 * e @ ideal, "ee_l": ((e - ideal) ** 2).sum()}


@settings(deadline=None, max_examples=40)
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(2, 6))
def test_equals_the_definitions_written_out(seed, n):
    log, lists, test = world(seed, n=n)
    found = measure_bias(lists, log, head_mask(log.item_counts), test, resamples=0)
    expected = oracle(log, lists, test)
    assert {name for name in found.values} == {
        f"{name}@{n}" for name in [*expected, "amplification", "entropy", "weighted_gini"]
    }
    for name, value in expected.items():
        assert found.values[f"{name}@{n}"] == pytest.approx(value, abs=1e-9, nan_ok=True), name
    assert found.intervals == {}


def test_by_hand():
    # Items 0 to 4 have 3, 2, 1, 1 and 0 interactions, so item 0 is the head.
    log = log_of([(0, 0), (1, 0), (2, 0), (0, 1), (1, 1), (2, 2), (1, 3)], 3, 5)
    lists = lists_of([[2, 3], [2, 4], [1, 3]], [0, 1, 2])
    found = measure_bias(lists, log, head_mask(log.item_counts), resamples=0).values
    assert found["aclt@2"] == 2
    assert found["weighted_apt@2"] == pytest.approx(1)
    assert found["pop_rsp@2"] == pytest.approx(math.nan, nan_ok=True)  # everybody has used the only head item
    # Profiles have means 5/2, 2 and 2; lists 1, 1/2 and 3/2.
    assert found["popularity_lift@2"] == pytest.approx(3 / (13 / 2) - 1)
    assert found["popularity_lift_niche_users@2"] == pytest.approx(0.5 / 2 - 1)  # user 1 has one head item of three
    assert found["entropy@2"] == pytest.approx(-(2 * (1 / 3) * math.log2(1 / 3) + 2 * (1 / 6) * math.log2(1 / 6)))
    # Exposures 1, 2 and 2 at popularity 2, 1 and 1 have a mean log popularity of log(2) / 5.
    b = found["amplification@2"]
    assert (3**b * math.log(3) + 2**b * math.log(2)) / (3**b + 2**b + 2) == pytest.approx(math.log(2) / 5)


def test_proportional_exposure_has_slope_one():
    log = log_of([(user, item) for item in range(4) for user in range(2**item)], 8, 4)
    rows = np.repeat(np.arange(4), log.item_counts)[:, None]
    lists = lists_of(rows, range(len(rows)))
    wide = Interactions.from_codes(pl.Series(range(16)), log.items, log.user, log.item)
    assert measure_bias(lists, wide, head_mask(log.item_counts), resamples=0).values[
        "amplification@1"
    ] == pytest.approx(1)
    equal = lists_of(np.tile(np.arange(4), 4)[:, None], range(16))
    assert measure_bias(equal, wide, head_mask(log.item_counts), resamples=0).values[
        "amplification@1"
    ] == pytest.approx(0, abs=1e-9)


def test_every_metric_changes_with_n():
    log, lists, test = world(7, users=60, items=40, n=6, full=True)
    head, recall = head_mask(log.item_counts), np.random.default_rng(0).random((6, len(lists)))
    found = []
    for n in (2, 4, 6):
        cut = Lists(lists.users, lists.items[:, :n], lists.scores[:, :n])
        values = measure_bias(cut, log, head, test, {f"recall@{n}": recall[n - 1]}, resamples=0).values
        found.append({name.partition("@")[0]: value for name, value in values.items()})
    for before, after in pairwise(found):
        assert {name for name in before if before[name] == after[name]} == set()


def test_order_of_lists_does_not_matter():
    log, lists, test = world(2, users=30)
    order = np.random.default_rng(1).permutation(len(lists))
    mixed = Lists(lists.users[order], lists.items[order], lists.scores[order])
    ours, theirs = (
        measure_bias(one, log, head_mask(log.item_counts), test, resamples=0).values for one in (lists, mixed)
    )
    assert theirs == pytest.approx(ours, nan_ok=True)


def test_intervals_hold_the_values_and_shrink_with_more_users():
    widths = []
    for users in (100, 400):
        log, lists, test = world(3, users=users, full=True)
        further = {"recall@4": np.random.default_rng(0).random(len(lists))}
        found = measure_bias(lists, log, head_mask(log.item_counts), test, further)
        again = measure_bias(lists, log, head_mask(log.item_counts), test, further)
        assert found.intervals == again.intervals
        assert set(found.intervals) == {*found.values, "recall@4", "coverage@4", "gini@4"}
        for name, value in found.values.items():
            assert found.intervals[name][0] <= value <= found.intervals[name][1], name
        widths.append({name: high - low for name, (low, high) in found.intervals.items()})
    narrower = [widths[1][name] < widths[0][name] for name in widths[0] if name != "coverage@4"]
    assert np.mean(narrower) > 0.9


def test_intervals_stay_in_the_range_of_the_metric_and_need_two_lists():
    log, lists, test = world(9, users=6, full=True)
    found = measure_bias(lists, log, head_mask(log.item_counts), test).intervals
    for name, high in {
        "weighted_apt@4": 1,
        "aclt@4": 4,
        "coverage@4": 1,
        "weighted_gini@4": 1,
        "ee_l@4": 2,
        "pop_rsp@4": 1,
    }.items():
        assert 0 <= found[name][0] <= found[name][1] <= high
    one = Lists(lists.users[:1], lists.items[:1], lists.scores[:1])
    assert measure_bias(one, log, head_mask(log.item_counts)).intervals == {}


def test_intervals_cover_the_expectation_of_fresh_users():
    """Sets of 150 users from the same crowd: nine of ten intervals or more should hold the mean of all sets."""
    rng, items, n = np.random.default_rng(0), 120, 5
    taste = 1 / np.arange(1, items + 1)
    log = log_of(
        {(u, int(i)) for u in range(150) for i in rng.choice(items, 6, replace=False, p=taste / taste.sum())},
        150,
        items,
    )
    head, found = head_mask(log.item_counts), []
    for _ in range(60):
        rows = np.stack([rng.choice(items, n, replace=False, p=taste / taste.sum()) for _ in range(150)])
        lists = lists_of(rows, range(150))
        one = measure_bias(lists, log, head)
        shown = exposure(lists.items, items)
        values = one.values | {"coverage@5": np.count_nonzero(shown) / items}
        found.append((values, one.intervals))
    for name in ("coverage@5", "entropy@5", "weighted_gini@5", "amplification@5", "weighted_apt@5", "pop_rsp@5"):
        truth = np.mean([values[name] for values, _ in found])
        held = np.mean([bounds[name][0] <= truth <= bounds[name][1] for _, bounds in found])
        assert held >= 0.85, f"{name}: {held:.0%}"
