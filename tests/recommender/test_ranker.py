"""Lists in codes: exact for every kind of request, and independent of what was asked before."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from icpe import ICPE, MF, DataError, Interactions, LightGCN, NeuMF, Normal
from icpe.ranking import best_of_rows
from icpe.ranking.exact import exact_of
from icpe.ranking.sweep import item_bias
from icpe.ranking.tables import with_bias
from icpe.testing import skewed_log
from icpe.train.dial import dial_direction

LOG = skewed_log(users=50, items=300, pairs=900)
BACKBONES = {
    "mf": lambda: MF(dim=7, init_std=0.5),
    "neumf": lambda: NeuMF(dim=6, layers=(8, 4), init_std=0.5),
    "lightgcn": lambda: LightGCN(dim=6, layers=2),
}


@pytest.fixture(scope="module")
def models():
    return {name: ICPE(make(), beta=0.2).fit(LOG, epochs=2, batch_size=256) for name, make in BACKBONES.items()}


def plain_lists(model, users, n, beta, hide_seen, allow, deny):
    """Sort all scores of the table that the method and the dial give, as exactly as ranking promises."""
    table = with_bias(model.method.scores(), item_bias(dial_direction(model.method, LOG), beta)) if beta else (
        model.method.scores()
    )  # fmt: skip
    exact = exact_of(table, compiled=False)
    values = np.array((exact or table).block(users, 0, len(LOG.items)))
    listed = np.ones(values.shape, bool)
    if allow is not None:
        listed &= np.isin(np.arange(len(LOG.items)), allow)
    if deny is not None:
        listed &= ~np.isin(np.arange(len(LOG.items)), deny)
    for row, user in enumerate(users):
        listed[row, LOG.item[LOG.user == user]] &= not hide_seen
    values[~listed] = -np.inf
    items, scores = np.full((len(users), n), -1), np.full((len(users), n), -np.inf, np.float32)
    for row, line in enumerate(values):
        order = [item for item in np.argsort(-line, kind="stable")[:n] if line[item] > -np.inf]
        items[row, : len(order)], scores[row, : len(order)] = order, line[order]
    return items, scores


codes = st.none() | st.lists(st.integers(-1, len(LOG.items) - 1), max_size=40).map(
    lambda some: np.array(some, np.int32)
)


@pytest.mark.parametrize("name", BACKBONES)
@settings(max_examples=25, deadline=None)
@given(
    users=st.lists(st.integers(0, 49), max_size=5).map(lambda some: np.array(some, np.int32)),
    n=st.sampled_from([1, 5, 20, 299, 400]),
    beta=st.sampled_from([None, 0.0, 0.2, -1.3]),
    hide_seen=st.booleans(),
    allow=codes,
    deny=codes,
)
def test_equals_a_full_sort(models, name, users, n, beta, hide_seen, allow, deny):
    model = models[name]
    found = model.ranker.top(users, n, beta=beta, hide_seen=hide_seen, allow=allow, deny=deny)
    items, scores = plain_lists(model, users, n, 0.2 if beta is None else beta, hide_seen, allow, deny)
    assert found.items.tolist() == items.tolist()
    assert found.scores.tobytes() == scores.tobytes()
    assert found.users.tolist() == users.tolist()


@pytest.mark.parametrize("name", BACKBONES)
def test_ties_are_broken_by_the_smaller_code(models, name):
    """Items with the same vectors and the same count have the same score."""
    double = LOG.to_frame()
    twins = double.with_columns(pl.col("item_id") + 1000)
    model = Normal(BACKBONES[name]()).fit(Interactions.read(pl.concat([double, twins])), epochs=1)
    with_twin = len(LOG.items)
    with pytest.MonkeyPatch.context() as patch:
        table = model.method.backbone.item_table.data
        patch.setattr(model.method.backbone.item_table, "data", table[:with_twin].repeat(2, 1))
        lists = model.ranker.top(np.arange(10, dtype=np.int32), 40, hide_seen=False)
    for row in lists.items.tolist():
        assert all(second == first + with_twin for first, second in zip(row[::2], row[1::2], strict=True))


@pytest.mark.parametrize("name", BACKBONES)
def test_a_changed_dial_equals_an_adjusted_model(models, name):
    model, users = models[name], np.arange(20, dtype=np.int32)
    for beta in [*np.linspace(-2, 2, 20), 0.2]:  # more settings than are kept
        ours, other = model.ranker.top(users, 9, beta=beta), model.adjusted(beta=float(beta)).ranker.top(users, 9)
        assert ours.items.tolist() == other.items.tolist()
        assert ours.scores.tobytes() == other.scores.tobytes()
    assert model.adjusted(beta=1.5).recommend([3]).equals(model.dial(beta=1.5).recommend([3]))
    assert model.ranker.at(0.7).beta == 0.7
    assert model.ranker.beta == 0.2


def test_frames_have_the_lists_of_the_ranker(models):
    model = models["mf"]
    ids = [LOG.users[code] for code in (8, 3)]
    codes, only, without = model.ranker.user_codes(ids), LOG.items[10:40], LOG.items[20:22]
    assert codes.tolist() == [8, 3]
    lists = model.ranker.top(codes, 7, allow=model.ranker.item_codes(only), deny=model.ranker.item_codes(without))
    frame = model.recommend(ids, 7, items=only, exclude=without)
    assert frame["item_id"].to_list() == LOG.items.gather(lists.items.ravel()).to_list()
    assert frame["score"].to_list() == lists.scores.ravel().tolist()


def test_unknown_ids_have_no_code(models):
    ranker = models["mf"].ranker
    assert ranker.user_codes([LOG.users[4], 10**9, -5]).tolist() == [4, -1, -1]
    assert ranker.item_codes([]).tolist() == []
    with pytest.raises(DataError, match="user ids are integers here, such as 0"):
        ranker.user_codes(["4"])


def test_popular_items(models):
    ranker = models["mf"].ranker
    counts = LOG.item_counts.astype(np.float32)
    lists = ranker.popular(5)
    expected = best_of_rows(counts[None], 5)
    assert lists.items.tolist() == expected[0].tolist()
    assert lists.scores.tolist() == expected[1].tolist()
    first = lists.items[0, 0]
    assert first not in ranker.popular(5, deny=np.array([first])).items
    assert ranker.popular(2, allow=np.array([first])).items.tolist() == [[first, -1]]


def test_similar_items_are_those_of_the_model(models):
    lists = models["mf"].ranker.similar(np.array([5, 9]), 4)
    frame = models["mf"].similar_items([LOG.items[5], LOG.items[9]], 4)
    assert LOG.items.gather(lists.items.ravel()).to_list() == frame["similar_item_id"].to_list()
    assert not (lists.items == np.array([[5], [9]])).any()


def test_threads_share_a_ranker(models):
    ranker = models["mf"].ranker.at(0.2)
    alone = [ranker.top(np.array([user]), 10, beta=user / 7).items.tolist() for user in range(30)]
    ranker.warm_up()
    fresh = ICPE(MF(dim=7, init_std=0.5), beta=0.2).fit(LOG, epochs=2, batch_size=256).ranker
    with ThreadPoolExecutor(4) as pool:
        asked = [pool.submit(fresh.top, np.array([user]), 10, beta=user / 7) for user in range(30)]
        assert [one.result().items.tolist() for one in asked] == alone
