"""Rules D9 and D10 and their tests T6 to T9, on every kind of split."""

import inspect
import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from icpe import ConfigError, DataError, Interactions, split
from icpe.split.item_quota import item_quota, latest, latest_by_sorting
from icpe.testing import skewed_log

KINDS = {
    "item_quota": lambda log, seed: split.unbiased(log, seed),
    "ips": lambda log, seed: split.unbiased(log, seed, mode="ips"),
    "ips capped": lambda log, seed: split.unbiased(log, seed, mode="ips", cap=90),
    "random": lambda log, seed: split.random(log, seed),
}


def pairs(part: Interactions) -> set[tuple[object, object]]:
    return set(part.to_frame().select("user_id", "item_id").rows())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("times", [True, False])
def test_parts_are_disjoint_cover_the_log_and_know_their_ids(kind, times):
    log = skewed_log(times=times)
    parts = KINDS[kind](log, 3)
    train, valid, test = (pairs(part) for _, part in parts.named())
    assert len(train) + len(valid) + len(test) == len(log)
    assert train | valid | test == pairs(log)
    known_users, known_items = {u for u, _ in train}, {i for _, i in train}
    assert {u for u, _ in valid | test} <= known_users
    assert {i for _, i in valid | test} <= known_items
    assert set(parts.train.users) == known_users
    assert parts.valid.users.equals(parts.train.users)
    assert parts.test.items.equals(parts.train.items)


@pytest.mark.parametrize("kind", KINDS)
def test_seed_decides(kind, skewed):
    first, again, other = KINDS[kind](skewed, 7), KINDS[kind](skewed, 7), KINDS[kind](skewed, 8)
    assert first.manifest == again.manifest
    if kind != "item_quota":  # with timestamps only coins are left to chance there
        assert pairs(first.test) != pairs(other.test)


def test_order_of_rows_does_not_matter(skewed):
    shuffled = Interactions.read(skewed.to_frame().sample(fraction=1.0, shuffle=True, seed=1))
    for make in KINDS.values():
        assert make(shuffled, 0).manifest == make(skewed, 0).manifest


def test_manifest_is_the_same_everywhere():
    """Golden: the bytes of a split of a log made without any random generator, on any machine."""
    pair = np.arange(4000)
    frame = pl.DataFrame({"user_id": pair * 7919 % 211, "item_id": (pair * pair) % 97})
    log = Interactions.read(frame)
    hashes = {kind: make(log, 5).manifest["hashes"]["test"][:12] for kind, make in KINDS.items()}
    assert log.content_hash[:12] == "0f0fe4a5e4d4"
    assert hashes == {
        "item_quota": "5d9ebdd21ef6",
        "ips": "2c8373196beb",
        "ips capped": "2581011eae2a",
        "random": "a815899f7323",
    }


@pytest.mark.parametrize("times", [True, False])
def test_item_quota_is_level_and_latest(times):
    """T6: equal counts for all items with enough, halves that differ by at most one, the latest held out."""
    log = skewed_log(times=times)
    parts = split.unbiased(log, seed=2)
    quota = parts.manifest["quota"]
    held_valid, held_test = parts.valid.item_counts, parts.test.item_counts
    moved = parts.moved
    enough = 9 * log.item_counts // 10 >= quota
    assert enough.sum() > 20
    short = np.sum(quota - (held_valid + held_test)[enough])
    assert 0 <= short <= moved
    assert moved == 0, "this log is dense enough for every user to stay in training"
    assert np.abs(held_valid - held_test).max() <= 1
    if times:
        for item in range(len(log.items)):
            ordered = [part.timestamp[part.item == item] for _, part in parts.named()]
            for earlier, later in pairwise(ordered):
                assert not len(earlier) or not len(later) or earlier.max() <= later.min()


@given(st.lists(st.integers(1, 60), min_size=1, max_size=30), st.floats(0.05, 0.6))
def test_quota_is_the_smallest(counts, share):
    counts = np.array(counts)
    limits = np.minimum(9 * counts // 10, counts - 1)
    wanted = share * counts.sum()
    quota = item_quota(counts, wanted)
    assert (quota == np.minimum(quota.max(), limits)).all()
    if limits.sum() >= wanted:
        assert quota.sum() >= wanted - 1e-6
        assert np.minimum(quota.max() - 1, limits).sum() < wanted or quota.max() == 0
    else:
        assert (quota == limits).all()


def test_ips_draws_follow_theory():
    """T7: an item loses about N(1 − exp(−t/N)) records, with t such that the whole share is lost."""
    log = skewed_log(users=400, items=60, pairs=5000)
    counts = log.item_counts.astype(float)
    wanted = 0.2 * len(log)
    low, high = 0.0, 1e6
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if (counts * (1 - np.exp(-middle / counts))).sum() < wanted else (low, middle)
    expected = counts * (1 - np.exp(-low / counts))
    runs = [split.unbiased(log, seed, mode="ips") for seed in range(40)]
    drawn = np.mean([run.valid.item_counts + run.test.item_counts for run in runs], axis=0)
    assert np.mean(np.abs(drawn - expected) / expected) < 0.10
    random_runs = np.mean([split.random(log, seed).test.item_counts for seed in range(10)], axis=0)
    assert np.mean(np.abs(2 * random_runs - expected) / expected) > 0.30, "the test would pass for any split"


def test_ips_cap_protects_rare_items(skewed):
    rare = skewed.item_counts <= np.quantile(skewed.item_counts, 0.1)

    def lost(cap: float | None) -> float:
        runs = [split.unbiased(skewed, seed, mode="ips", cap=cap) for seed in range(10)]
        return float(np.mean([(skewed.item_counts - run.train.item_counts)[rare].mean() for run in runs]))

    assert lost(50) < 0.8 * lost(None)


def test_records_without_training_data_return(skewed):
    """User 9999 has one interaction and it is the latest of its item: it must not be lost to test."""
    assert split.unbiased(skewed).moved == 0
    once = (
        skewed.to_frame()
        .head(1)
        .with_columns(user_id=pl.lit(9999, pl.Int64), timestamp=pl.col("timestamp").dt.offset_by("9y"))
    )
    parts = split.unbiased(Interactions.read(pl.concat([skewed.to_frame(), once])))
    assert parts.moved == 1
    assert set(once.select("user_id", "item_id").rows()) <= pairs(parts.train)
    assert "1 interactions of users or items without training data moved to train" in parts.as_text()
    assert parts.manifest["moved_to_train"] == 1


def test_shares(skewed):
    for make in (split.random, split.unbiased):
        parts = make(skewed, train=0.6, valid=0.3)
        total = len(skewed)
        assert abs(len(parts.train) / total - 0.6) < 0.03
        assert abs(len(parts.valid) / total - 0.3) < 0.03
    assert len(split.random(skewed, valid=0.0).valid) == 0
    for train, valid in ((0.0, 0.1), (1.0, 0.0), (0.8, 0.2), (0.5, -0.1), (0.9, 0.4)):
        for make in (split.random, split.unbiased, split.chronological):
            with pytest.raises(ConfigError, match=rf"(train is {train}|valid is {valid}).* expected"):
                make(skewed, train=train, valid=valid)


def test_chronological_keeps_the_future_out(skewed):
    parts = split.chronological(skewed)
    assert parts.train.timestamp.max() < parts.valid.timestamp.min()
    assert parts.valid.timestamp.max() < parts.test.timestamp.min()
    dropped = parts.manifest["dropped"]["user or item without training data"]
    assert sum(len(part) for _, part in parts.named()) + dropped == len(skewed)
    assert abs(len(parts.train) / len(skewed) - 0.8) < 0.01
    assert set(parts.train.users) == {u for u, _ in pairs(parts.train)}


def test_chronological_drops_newcomers_and_says_so():
    rows = [("d", "x", 0), ("a", "x", 1), ("b", "x", 2), ("a", "y", 3), ("b", "y", 4)]
    rows += [("c", "x", 5), ("b", "z", 6), ("d", "y", 7)]  # c and z are new after the first five
    rows += [("a", "z", 8), ("c", "y", 9), ("d", "w", 10), ("e", "x", 11), ("b", "v", 12)]
    known_later = [("f", "x", 0), ("f", "y", 13)]
    log = Interactions.read(pl.DataFrame(rows + known_later, schema=["user_id", "item_id", "timestamp"], orient="row"))
    parts = split.chronological(log, train=0.4, valid=0.2)
    assert pairs(parts.train) == {("d", "x"), ("f", "x"), ("a", "x"), ("b", "x"), ("a", "y"), ("b", "y")}
    assert pairs(parts.valid) == {("d", "y")}
    assert pairs(parts.test) == {("f", "y")}
    assert parts.manifest["dropped"] == {"user or item without training data": 7}
    assert "7 interactions dropped: user or item without training data" in parts.as_text()


def test_chronological_keeps_equal_times_together():
    log = Interactions.read(
        pl.DataFrame({"user_id": [k % 10 for k in range(200)], "item_id": [k // 10 for k in range(200)]}).with_columns(
            timestamp=(pl.col("user_id") + pl.col("item_id")) % 10
        )
    )
    parts = split.chronological(log)
    moments = [set(part.timestamp.tolist()) for _, part in parts.named()]
    assert not moments[0] & moments[1]
    assert not moments[1] & moments[2]


def test_chronological_needs_times(skewed):
    with pytest.raises(DataError, match="has no timestamps, which a chronological split needs"):
        split.chronological(skewed_log(times=False))


def test_given_parts_stay_as_they_are():
    train = pl.DataFrame({"user_id": ["a", "a", "b", "c"], "item_id": [1, 2, 2, 3]})
    valid = pl.DataFrame({"user_id": ["a", "b"], "item_id": [3, 9]})  # item 9 is not in training
    test = pl.DataFrame({"user_id": ["b", "a", "a", "z"], "item_id": [1, 2, 3, 1]})  # (a, 2) train, (a, 3) valid, z new
    parts = split.given(train, valid, test)
    assert pairs(parts.train) == {("a", 1), ("a", 2), ("b", 2), ("c", 3)}
    assert pairs(parts.valid) == {("a", 3)}
    assert pairs(parts.test) == {("b", 1)}
    assert parts.manifest["dropped"] == {"user or item without training data": 2, "pair is in an earlier part too": 2}
    assert "2 interactions dropped: pair is in an earlier part too" in parts.as_text()


def test_given_without_validation_and_with_wrong_ids():
    train = pl.DataFrame({"user_id": [1, 1, 2], "item_id": [1, 2, 2]})
    assert len(split.given(train, test=pl.DataFrame({"user_id": [2], "item_id": [1]})).valid) == 0
    with pytest.raises(DataError, match="'user_id' has the type Int64 in training and String in another part"):
        split.given(train, test=pl.DataFrame({"user_id": ["2"], "item_id": [1]}))
    with pytest.raises(DataError, match="test part is empty"):
        split.given(train, test=pl.DataFrame({"user_id": [7], "item_id": [1]}))


@pytest.mark.parametrize("kind", [*KINDS, "chronological"])
def test_saved_split_reads_back(tmp_path, skewed, kind):
    parts = split.chronological(skewed) if kind == "chronological" else KINDS[kind](skewed, 1)
    parts.save(tmp_path / "parts")
    again = split.load(tmp_path / "parts")
    assert again.manifest == parts.manifest
    assert json.loads((tmp_path / "parts" / "split.json").read_text()) == parts.manifest
    with pytest.raises(ConfigError, match="already holds a split"):
        parts.save(tmp_path / "parts")
    parts.save(tmp_path / "parts", force=True)


def test_names_travel_with_a_split(tmp_path):
    log = skewed_log(users=40, items=8, pairs=300)
    names = pl.DataFrame({"item_id": range(8), "name": [f"song {k}" for k in range(8)]})
    log = Interactions.read(log.to_frame(), item_info=names)
    split.random(log).save(tmp_path)
    assert split.load(tmp_path).test.item_names([3]).to_list() == ["song 3"]


def test_a_tampered_split_is_refused(tmp_path, skewed):
    with pytest.raises(DataError, match="holds no split"):
        split.load(tmp_path)
    split.random(skewed).save(tmp_path)
    frame = pl.read_parquet(tmp_path / "test.parquet")
    frame.head(-1).write_parquet(tmp_path / "test.parquet")
    with pytest.raises(DataError, match=r"test\.parquet does not match"):
        split.load(tmp_path)
    (tmp_path / "test.parquet").write_bytes(b"PAR1")
    with pytest.raises(DataError, match=r"test\.parquet cannot be read"):
        split.load(tmp_path)
    (tmp_path / "split.json").write_text('{"format": 99}')
    with pytest.raises(DataError, match=r"split\.json is damaged or was changed"):
        split.load(tmp_path)
    (tmp_path / "manifest.json").unlink()  # splits of earlier versions have none
    with pytest.raises(DataError, match="not a manifest that this version can read"):
        split.load(tmp_path)


def test_wrong_settings(skewed):
    for options, message in (
        ({"mode": "dice"}, "mode is 'dice'; expected one of item_quota, ips"),
        ({"cap": 90}, "cap is 90, but mode is item_quota"),
        ({"mode": "ips", "cap": 0}, "cap is 0; expected a number above 0 and at most 100"),
        ({"mode": "ips", "cap": 101}, "cap is 101; expected"),
        ({"seed": -1}, "seed is -1; expected a whole number"),
        ({"seed": 1.5, "mode": "x"}, r"(?s)seed is 1\.5; .*mode is 'x'"),
    ):
        with pytest.raises(ConfigError, match=message):
            split.unbiased(skewed, **options)
        with pytest.raises(ConfigError, match=message):
            split.cut(skewed, "unbiased", **options)


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        ("unbiased", {}),
        ("unbiased", {"seed": 3, "train": 0.7}),
        ("unbiased", {"seed": 3, "mode": "ips", "cap": 80, "valid": 0.05}),
        ("random", {"seed": 3, "valid": 0.15}),
        ("chronological", {"train": 0.6, "valid": 0.2}),
    ],
)
def test_cut_gives_what_the_function_of_that_name_gives(skewed, kind, settings):
    parts = split.cut(skewed, kind, **settings)
    assert parts.manifest == getattr(split, kind)(skewed, **settings).manifest
    assert settings.items() <= parts.recipe.items()


def test_every_kind_declares_the_parameters_of_its_function():
    for kind, declaration in split.KINDS.items():
        _log, *parameters = inspect.signature(getattr(split, kind)).parameters.values()
        declared = {one.name: one.default for one in declaration.declared()}
        assert declared == {one.name: one.default for one in parameters}
        assert all(one.description.endswith(".") for one in declaration.declared())


def test_cut_refuses_unknown_names(skewed):
    with pytest.raises(ConfigError, match="unknown split 'randon'; did you mean 'random'"):
        split.cut(skewed, "randon")
    with pytest.raises(ConfigError, match="the chronological split has no setting 'seed'"):
        split.cut(skewed, "chronological", seed=1)
    with pytest.raises(ConfigError, match="no setting 'vaild'; did you mean 'valid'"):
        split.cut(skewed, "random", vaild=0.2)


def test_a_log_too_small_to_split():
    log = Interactions.read({"user_id": [1, 2], "item_id": [1, 2]})
    with pytest.raises(DataError, match="part is empty"):
        split.unbiased(log)


@settings(max_examples=100)
@given(
    st.integers(0, 10_000),
    st.sampled_from([1, 60, 86_400]),  # seconds between two possible times: few days, minutes, seconds
    st.sampled_from([5, 10**6, 10**12]),  # 10**12 seconds in microseconds do not fit beside the item
    st.booleans(),
)
def test_latest_against_a_loop(seed, step, span, timed):
    rng = np.random.default_rng(seed)
    log = Interactions.from_codes(
        users=pl.Series(range(30)),
        items=pl.Series(range(9)),
        user=rng.integers(0, 30, 90).astype(np.int32),
        item=rng.integers(0, 9, 90).astype(np.int32),
        timestamp=rng.integers(0, span, 90) * step * 10**6 + (span == 10**12) if timed else None,
    )
    tie = rng.permutation(len(log)).astype(np.uint64) << np.uint64(57)  # few different ones, so that borders are hit
    number = rng.integers(0, log.item_counts + 1)
    for way in (latest, latest_by_sorting):
        (mask,) = way(log, tie, [number])
        for item in range(9):
            rows = np.flatnonzero(log.item == item)
            ordered = sorted(rows, key=lambda row: (0 if log.timestamp is None else log.timestamp[row], tie[row]))
            assert set(np.flatnonzero(mask & (log.item == item))) == set(ordered[len(rows) - number[item] :])


def test_the_documentation_lists_every_setting():
    page = (Path(__file__).parents[2] / "docs" / "splits.md").read_text(encoding="utf-8")
    rows: dict[str, list[str]] = {}
    for kind, declaration in split.KINDS.items():
        for one in declaration.declared():
            default = "none" if one.default is None else one.default
            row = f"| `{one.name}` | {{}} | {default} | {one.expected} | {one.description} |"
            rows.setdefault(row, []).append(kind)
    for row, kinds in rows.items():
        assert row.format(", ".join(kinds)) in page.splitlines()
