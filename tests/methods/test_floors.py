"""Popularity and Random: what they rank by, and that they keep to it."""

import numpy as np
import polars as pl
import pytest
import torch

from icpe import MF, ConfigError, LightGCN, NeuMF
from icpe.methods import METHODS
from icpe.methods.baselines import Popularity, Random
from icpe.ranking import top_n
from icpe.recommender.store import save_model
from icpe.rng import stream
from icpe.runs.load import load
from icpe.testing.logs import skewed_log

LOG = skewed_log(users=40, items=30, pairs=400)
BOTH = pytest.mark.parametrize("kind", [Popularity, Random])
EVERYBODY = np.arange(40, dtype=np.int32)


def table(model):
    return model.scores.block(EVERYBODY, 0, 30)


@pytest.mark.parametrize("backbone", [MF, NeuMF, LightGCN])
def test_popularity_is_the_training_count(backbone):
    model = Popularity(backbone()).fit(LOG)
    assert np.array_equal(table(model), np.tile(LOG.item_counts, (40, 1)))
    lists = model.recommend(n=3, hide_seen=False)
    best = lists.filter(pl.col("user_id") == LOG.users[0])["item_id"].to_list()
    assert best == [LOG.items[int(code)] for code in np.argsort(-LOG.item_counts, kind="stable")[:3]]


@BOTH
def test_nothing_is_trained_and_nothing_is_asked_of_the_backbone(kind):
    model = kind(LightGCN(dim=8)).fit(LOG, epochs=3)
    assert not list(model.method.parameters())
    assert not model.method.row_tables()[0]
    same = kind(MF(dim=4)).fit(LOG, epochs=1)
    assert np.array_equal(table(model), table(same))


@BOTH
def test_scores_are_the_same_at_every_look_and_pair_by_pair(kind):
    model = kind(MF()).fit(LOG, valid=skewed_log(users=40, items=30, pairs=100, seed=1), rng=3)
    again = kind(MF()).fit(LOG, rng=3, epochs=2)
    assert np.array_equal(table(model), table(again))
    method = model.method
    users, items = method.backbone.reps()
    pairs = torch.stack([method.score_user(user, items) for user in users])
    assert np.allclose(table(model), pairs.numpy(), rtol=1e-5, atol=1e-6)


def test_every_user_has_an_order_of_their_own_and_every_seed_others():
    one, two = (table(Random(MF()).fit(LOG, rng=seed)) for seed in (0, 1))
    assert len(np.unique(np.argsort(one, 1), axis=0)) == 40
    assert not np.array_equal(one, two)


def test_every_item_is_at_the_head_of_as_many_lists():
    log = skewed_log(users=3000, items=100, pairs=9000)
    model = Random(MF()).fit(log)
    lists = top_n(model.scores, np.arange(len(log.users), dtype=np.int32), 5)
    seen = np.bincount(lists.items.ravel(), minlength=100)
    expected = lists.items.size / 100
    # The statistic of a chi-squared test with 99 degrees of freedom, a little raised by vectors that lie near others:
    # without lengths made equal it is above 1000.
    assert ((seen - expected) ** 2 / expected).sum() < 250
    assert abs(np.corrcoef(seen, log.item_counts)[0, 1]) < 0.4


@BOTH
@pytest.mark.parametrize("backbone", [MF, LightGCN])
def test_is_saved_and_read(kind, backbone, tmp_path, monkeypatch):
    monkeypatch.setitem(METHODS, kind.name, kind)
    model = kind(backbone(dim=6)).fit(LOG, rng=5)
    save_model(model, tmp_path)
    read = load(tmp_path)
    assert np.array_equal(table(read), table(model))
    assert (read.method.backbone.name, read.method.backbone.settings()) == (backbone.name, backbone(dim=6).settings())
    assert repr(read) == repr(model)


@BOTH
def test_lists_hide_what_was_used(kind):
    lists = kind(MF()).fit(LOG).recommend(n=30)
    used = set(LOG.to_frame().select("user_id", "item_id").rows())
    assert not used & set(lists.select("user_id", "item_id").rows())
    assert len(lists) == 40 * 30 - len(LOG)


@BOTH
def test_newcomers_get_a_list_that_their_history_does_not_change(kind):
    model = kind(MF()).fit(LOG)
    one, two = (model.fold_in([LOG.items[code]], n=30, hide_seen=False)["item_id"].to_list() for code in (0, 9))
    assert one == two
    assert sorted(one) == sorted(LOG.items.to_list())


def test_no_settings_to_get_wrong():
    assert Popularity(MF()).settings() == Random(MF()).settings() == {}
    with pytest.raises(ConfigError, match="backbone is None"):
        Random(None)
    method = Popularity(Popularity(MF(dim=3)).backbone)  # made anew from its own parts
    method.build(LOG, stream(0, "test"))
    assert method.backbone.settings()["dim"] == 3
