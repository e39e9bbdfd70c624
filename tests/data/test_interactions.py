"""The log as an object: canonical order, duplicates, k-core, hashes."""

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from icpe import Interactions

PAIRS = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12), st.integers(0, 5)), min_size=6, max_size=80)


def make(rows: list[tuple[int, int, int]]) -> Interactions:
    extra = [(0, 0, 3), (1, 1, 3)]  # two users and two items are there whatever is drawn
    frame = pl.DataFrame(rows + extra, schema=["user_id", "item_id", "timestamp"], orient="row")
    return Interactions.read(frame)


@given(PAIRS)
def test_pairs_are_sorted_distinct_and_earliest(rows):
    log = make(rows)
    kept = {(u, i): int(t.timestamp()) for u, i, t in log.to_frame().iter_rows()}
    earliest: dict[tuple[int, int], int] = {}
    for u, i, t in [*rows, (0, 0, 3), (1, 1, 3)]:
        earliest[u, i] = min(t, earliest.get((u, i), t))
    assert kept == earliest
    assert list(kept) == sorted(kept)
    assert log.reading.duplicates == len(rows) + 2 - len(earliest)


def test_without_times_the_first_row_stays():
    log = Interactions.read(pl.DataFrame({"user_id": [1, 1, 2], "item_id": [5, 5, 6], "weight": [9.0, 1.0, 2.0]}))
    assert log.weight.tolist() == [9.0, 2.0]


@given(PAIRS, st.integers(1, 5))
def test_k_core_is_the_largest_part_with_k_everywhere(rows, k):
    log = make(rows)
    pairs = set(log.to_frame().select("user_id", "item_id").rows())
    while True:  # the definition, one pair at a time
        light = {(u, i) for u, i in pairs if sum(v == u for v, _ in pairs) < k or sum(j == i for _, j in pairs) < k}
        if not light:
            break
        pairs -= light
    if len({u for u, _ in pairs}) < 2 or len({i for _, i in pairs}) < 2:
        return
    core = log.k_core(k)
    assert set(core.to_frame().select("user_id", "item_id").rows()) == pairs
    assert core.user_counts.min() >= k
    assert core.item_counts.min() >= k
    assert core.reading.removed_by_k_core == len(log) - len(core)
    assert core.k_core(k).content_hash == core.content_hash


def test_a_core_keeps_names(skewed):
    names = pl.DataFrame({"item_id": range(120), "name": [f"n{k}" for k in range(120)], "genre": "folk"})
    core = Interactions.read(skewed.to_frame(), item_info=names).k_core(14)
    assert 2 < len(core.items) < 120
    assert core.item_names().to_list() == [f"n{k}" for k in core.items]
    assert core.item_info.columns == ["item_id", "name", "genre"]


def test_content_hash_sees_every_part_of_the_content():
    base = pl.DataFrame({"user_id": [1, 2, 3], "item_id": [7, 8, 7], "timestamp": [5, 6, 7], "weight": [1.0, 2.0, 3.0]})
    variants = [
        base,
        base.with_columns(user_id=pl.Series([1, 2, 4])),
        base.with_columns(item_id=pl.Series([7, 9, 7])),
        base.with_columns(item_id=pl.Series([7, 8, 8])),
        base.with_columns(timestamp=pl.Series([5, 6, 8])),
        base.with_columns(weight=pl.Series([1.0, 2.0, 4.0])),
        base.drop("timestamp"),
        base.drop("weight"),
        base.with_columns(pl.col("user_id").cast(pl.String)),
    ]
    assert len({Interactions.read(frame).content_hash for frame in variants}) == len(variants)


def test_text_ids_cannot_be_confused():
    one = Interactions.read({"user_id": ["a", "bc"], "item_id": [1, 2]})
    other = Interactions.read({"user_id": ["ab", "c"], "item_id": [1, 2]})
    assert one.content_hash != other.content_hash


def test_counts_and_shape(skewed):
    assert skewed.user_counts.sum() == skewed.item_counts.sum() == len(skewed)
    assert (
        repr(skewed)
        == f"Interactions({len(skewed.users)} users, {len(skewed.items)} items, {len(skewed):,} interactions)"
    )


@pytest.mark.parametrize("kind", [pl.Int8, pl.Int32, pl.UInt64])
def test_integer_types(kind):
    frame = pl.DataFrame({"user_id": [1, 2], "item_id": [3, 4]}, schema={"user_id": kind, "item_id": kind})
    assert Interactions.read(frame).users.dtype == pl.Int64


def test_integers_beyond_int64_become_text():
    frame = pl.DataFrame(
        {"user_id": [2**63 + 1, 2], "item_id": [3, 4]}, schema={"user_id": pl.UInt64, "item_id": pl.Int64}
    )
    assert Interactions.read(frame).users.to_list() == ["2", str(2**63 + 1)]
