"""Lists from other systems: their order, irregularities, and that they are evaluated like our own."""

import math

import numpy as np
import pandas as pd
import polars as pl
import pytest

from icpe import MF, DataError, Interactions, Normal, evaluate, split
from icpe.metrics.given import head_among, read_lists, widened

LOG = Interactions.read(pl.DataFrame({"user_id": ["ann", "bob", "bob"], "item_id": ["egg", "egg", "ham"]}))


def listed(given):
    """The lists with ids, by user."""
    found = {}
    for user, item in zip(given.users.gather(given.user), given.items.gather(given.item), strict=True):
        found.setdefault(user, []).append(item)
    return found


@pytest.mark.parametrize(
    ("columns", "order", "expected"),
    [
        ({}, "file", ["ham", "egg", "jam"]),
        ({"score": [0.1, 0.9, 0.1]}, "score", ["egg", "ham", "jam"]),  # a tie stays in file order
        ({"score": [9, 8, 7], "rank": [30, 0, 10]}, "rank", ["egg", "jam", "ham"]),  # from 0, with gaps
        ({"rank": [2, 2, 1]}, "rank", ["jam", "ham", "egg"]),
    ],
)
def test_order(columns, order, expected):
    given = read_lists(pl.DataFrame({"user_id": ["ann"] * 3, "item_id": ["ham", "egg", "jam"], **columns}), LOG)
    assert (given.order, listed(given)) == (order, {"ann": expected})
    assert given.place.tolist() == [1, 2, 3]


def test_oddities_are_kept_or_counted():
    frame = pl.DataFrame(
        {
            "user_id": ["zoe", "bob", "bob", "ann", "bob", "bob"],
            "item_id": ["egg", "ham", "new", "new", "ham", "egg"],
            "rank": [1, 5, 7, 1, 2, 7],
        }
    )
    given = read_lists(frame, LOG)
    assert listed(given) == {"ann": ["new"], "bob": ["ham", "new", "egg"], "zoe": ["egg"]}
    assert (given.rows, given.duplicates, given.ties, given.first_rank) == (6, 1, 1, 1)
    assert given.users.to_list() == ["ann", "bob", "zoe"]  # the log's first, then those it does not know
    assert given.items.to_list() == ["egg", "ham", "new"]
    assert given.lengths.tolist() == [1, 3, 1]
    lists = given.cut(2)
    assert lists.users.tolist() == [0, 1, 2]
    assert lists.items.tolist() == [[2, -1], [1, 2], [0, -1]]
    assert head_among(LOG, 3).tolist() == [True, False, False]


def test_rows_in_any_order_and_any_frame_give_the_same_lists():
    frame = pl.DataFrame(
        {"user_id": ["bob", "ann", "bob"], "item_id": ["ham", "egg", "new"], "rank": [1, 1, 2], "more": [1, 2, 3]}
    )
    given = read_lists(frame, LOG)
    for other in (frame[::-1], pd.DataFrame(frame.to_dict(as_series=False)), frame.to_arrow(), frame.lazy()):
        again = read_lists(other, LOG)
        assert listed(again) == listed(given)
        assert again.content_hash == given.content_hash
    turned = read_lists(frame.with_columns(rank=3 - pl.col("rank")), LOG)
    assert turned.content_hash != given.content_hash


def test_text_files_follow_the_type_of_the_log(write):
    log = Interactions.read(pl.DataFrame({"user_id": ["1", "2", "x"], "item_id": [7, 7, 8]}))
    given = read_lists(write("recs.csv", "user_id,item_id\n1,8\n2,7\n"), log)
    assert listed(given) == {"1": [8], "2": [7]}


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (
            {"user_id": [1], "item_id": ["egg"]},
            r"'user_id' is text in .* \(such as 'ann'\) and integers in .*--ids text",
        ),
        ({"user_id": ["ann"], "item_id": ["EGG"]}, r"no item of the frame is in .* \(such as 'EGG' and 'egg'\)"),
        ({"user_id": ["ann"], "item_id": ["egg"], "rank": ["first"]}, "row 1: 'rank' is 'first'"),
        ({"user_id": ["ann"], "item_id": ["egg"], "score": [math.nan]}, "row 1: 'score' is"),
        ({"user_id": ["ann", None], "item_id": ["egg", "ham"]}, "row 2: 'user_id' is missing"),
        ({"user_id": [], "item_id": []}, "has no rows"),
        ({"uid": ["ann"], "item_id": ["egg"]}, "--recs-column user_id=uid"),
        ({"user_id": ["ann"], "item_id": ["egg"], "timestamp": [1]}, None),  # another column is none of our business
    ],
)
def test_bad_lists_are_told(frame, message):
    if message is None:
        assert read_lists(pl.DataFrame(frame), LOG).rows == 1
        return
    with pytest.raises(DataError, match=message):
        read_lists(pl.DataFrame(frame), LOG)


def test_widened_keeps_pairs_and_appends_unknown_ids():
    part = Interactions.read(pl.DataFrame({"user_id": ["zoe", "ann"], "item_id": ["ham", "fig"]}), at_least=1)
    wide = widened(part, LOG.users, LOG.items)
    assert wide.users.to_list() == ["ann", "bob", "zoe"]
    assert wide.items.to_list() == ["egg", "ham", "fig"]
    assert list(zip(wide.user.tolist(), wide.item.tolist(), strict=True)) == [(0, 2), (2, 1)]


@pytest.fixture(scope="module")
def trained(skewed):
    parts = split.unbiased(skewed, seed=0)
    return Normal(MF(dim=8)).fit(parts.train, valid=parts.valid, rng=0, epochs=2), parts


def test_a_models_lists_as_a_frame_have_its_figures(trained):
    """The lists of a model without validation items have the same metrics as the model itself."""
    model, parts = trained
    longer = model.recommend(n=20 + int(parts.valid.user_counts.max()))
    hidden = longer.join(parts.valid.to_frame(), on=["user_id", "item_id"], how="anti", maintain_order="left")
    ours = evaluate(model, parts, n=[5, 20], per_user=True)
    theirs = evaluate(hidden.drop("score"), parts, n=[5, 20], per_user=True)
    assert theirs.values == pytest.approx(ours.values, nan_ok=True)
    assert theirs.per_user.equals(ours.per_user)
    shuffled = hidden.drop("rank").sample(fraction=1, shuffle=True, seed=1)  # by score, whatever the order of rows
    assert evaluate(shuffled.to_arrow(), parts, n=[5, 20]).values == pytest.approx(ours.values, nan_ok=True)


def test_new_items_take_places_and_unknown_users_do_not_count(trained):
    _, parts = trained
    user = parts.train.users[int(np.flatnonzero(parts.test.user_counts)[0])]
    items = [*parts.train.items[:3], 10**6]
    frame = pl.DataFrame({"user_id": [user] * 4 + [10**6], "item_id": [*items, items[0]]})
    values = evaluate(frame, parts, n=[4]).values
    niche = ~head_among(parts.train, len(parts.train.items))[:3]
    assert values["users"] == 1
    assert values["apt@4"] == (niche.sum() + 1) / 4
    assert values["coverage@4"] == pytest.approx(4 / (len(parts.train.items) + 1))
    assert values["popularity@4"] == parts.train.item_counts[:3].sum() / 4
