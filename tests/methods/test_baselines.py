"""Popularity and Random: what they rank by, and that training does not change it."""

import numpy as np
import polars as pl
import pytest
import torch

from icpe import MF, ConfigError, LightGCN, NeuMF
from icpe.methods import Popularity, Random
from icpe.ranking import top_n
from icpe.recommender.store import save_model
from icpe.rng import stream
from icpe.runs.load import load
from icpe.testing.logs import skewed_log

LOG = skewed_log(users=40, items=30, pairs=400)
KINDS = pytest.mark.parametrize("kind", [Popularity, Random])
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


@KINDS
def test_nothing_is_trained_and_the_backbone_is_not_used(kind):
    model = kind(LightGCN(dim=8)).fit(LOG, epochs=3)
    assert not list(model.method.parameters())
    assert not model.method.row_tables()[0]
    same = kind(MF(dim=4)).fit(LOG, epochs=1)
    assert np.array_equal(table(model), table(same))


@KINDS
def test_scores_do_not_change_and_agree_pair_by_pair(kind):
    model = kind(MF()).fit(LOG, valid=skewed_log(users=40, items=30, pairs=100, seed=1), rng=3)
    again = kind(MF()).fit(LOG, rng=3, epochs=2)
    assert np.array_equal(table(model), table(again))
    method = model.method
    users, items = method.backbone.reps()
    pairs = torch.stack([method.score_user(user, items) for user in users])
    assert np.allclose(table(model), pairs.numpy(), rtol=1e-5, atol=1e-6)


def test_every_user_and_every_seed_has_its_own_order():
    one, two = (table(Random(MF()).fit(LOG, rng=seed)) for seed in (0, 1))
    assert len(np.unique(np.argsort(one, 1), axis=0)) == 40
    assert not np.array_equal(one, two)


def test_all_items_lead_equally_many_lists():
    log = skewed_log(users=3000, items=100, pairs=9000)
    model = Random(MF()).fit(log)
    lists = top_n(model.scores, np.arange(len(log.users), dtype=np.int32), 5)
    seen = np.bincount(lists.items.ravel(), minlength=100)
    expected = lists.items.size / 100
    # The statistic of a chi-squared test with 99 degrees of freedom, slightly raised because some vectors are similar.
    # Without equal norms it is above 1000.
    assert ((seen - expected) ** 2 / expected).sum() < 250
    assert abs(np.corrcoef(seen, log.item_counts)[0, 1]) < 0.4


@KINDS
@pytest.mark.parametrize("backbone", [MF, LightGCN])
def test_is_saved_and_read(kind, backbone, tmp_path):
    model = kind(backbone(dim=6)).fit(LOG, rng=5)
    save_model(model, tmp_path)
    read = load(tmp_path)
    assert np.array_equal(table(read), table(model))
    assert read.method.backbone.name == backbone.name
    assert read.method.backbone.settings == backbone(dim=6).settings
    assert repr(read) == repr(model)


@KINDS
def test_lists_leave_out_used_items(kind):
    lists = kind(MF()).fit(LOG).recommend(n=30)
    used = set(LOG.to_frame().select("user_id", "item_id").rows())
    assert not used & set(lists.select("user_id", "item_id").rows())
    assert len(lists) == 40 * 30 - len(LOG)


@KINDS
def test_the_history_of_a_new_user_does_not_change_the_list(kind):
    model = kind(MF()).fit(LOG)
    one, two = (model.fold_in([LOG.items[code]], n=30, hide_seen=False)["item_id"].to_list() for code in (0, 9))
    assert one == two
    assert sorted(one) == sorted(LOG.items.to_list())


def test_settings():
    assert Popularity(MF()).settings.as_dict() == Random(MF()).settings.as_dict() == {"beta": None, "boost": None}
    with pytest.raises(ConfigError, match="no setting 'reg'"):
        Popularity(MF(), reg=0.1)
    with pytest.raises(ConfigError, match="backbone is None"):
        Random(None)
    method = Popularity(Popularity(MF(dim=3)).backbone)  # rebuilt from its own backbone
    method.build(LOG, stream(0, "test"))
    assert method.backbone.settings.dim == 3
