"""What holds for every registered method, whatever it does."""

import numpy as np
import pytest

from icpe import MF, LightGCN, NeuMF, split
from icpe import load as load_model
from icpe.methods import METHODS, make_method
from icpe.metrics import evaluate_lists
from icpe.ranking import top_n
from icpe.ranking.tables import DotScores
from icpe.testing.logs import skewed_log
from icpe.testing.methods import block_log

LEARNING = [name for name in METHODS if name not in ("popularity", "random")]
QUICK = {
    "bc_loss": {"negatives": 16},
    "macr": {"strength": 0.0},
}  # without validation nothing chooses the strength of MACR
INNER_PRODUCTS = ("in_batch", "resn", "popdcl")  # not for NeuMF
LOOP = {"epochs": 60, "batch_size": 128, "lr": 0.02}


def ndcg(scores, log):
    everybody = np.arange(len(log.users), dtype=np.int32)
    return evaluate_lists(top_n(scores, everybody, 20), log, log, n=[20]).values["ndcg@20"]


@pytest.mark.parametrize("name", LEARNING)
def test_groups_are_learnt(name):
    """Users of ten groups have items of their own, of which popularity knows nothing."""
    log = block_log()
    model = make_method(name, MF(dim=16), **QUICK.get(name, {})).fit(log, **LOOP)
    popular = DotScores(np.ones((len(log.users), 1), np.float32), log.item_counts.astype(np.float32)[:, None])
    assert ndcg(popular, log) < 0.35
    assert ndcg(model.scores, log) > 0.7


@pytest.fixture(scope="module")
def one_taste():
    """Members of a group like all its items alike; how often an item is used is a matter of exposure alone."""
    log = block_log(groups=4, users=120, items=30, share=1.0)
    chance = np.tile(np.geomspace(0.4, 0.05, 30), 4)[log.item]
    seen = log.keep(np.random.default_rng(0).random(len(log)) < chance).compact()
    return split.unbiased(seen, seed=0)


def mean_count(method, parts):
    """Return the mean training count of recommended items with the dial at rest, which shows the method alone."""
    model = method.fit(parts.train, parts.valid, epochs=30, batch_size=256, lr=0.02, patience=30, goal="none")
    counts = dict(zip(parts.train.items, parts.train.item_counts, strict=True))
    return np.mean([counts[item] for item in model.recommend(n=10)["item_id"]])


@pytest.mark.parametrize(("name", "settings"), [("ips", {"clip_percentile": 90.0}), ("cpr", {}), ("pd", {})])
def test_popularity_loses_weight_where_it_means_nothing(name, settings, one_taste):
    plain = mean_count(make_method("normal", MF(dim=16)), one_taste)
    assert mean_count(make_method(name, MF(dim=16), **settings), one_taste) < plain


@pytest.mark.parametrize("name", LEARNING)
def test_a_saved_model_ranks_the_same(name, tmp_path):
    log = skewed_log(users=40, items=30, pairs=400)
    model = make_method(name, MF(dim=8), **QUICK.get(name, {})).fit(log, log, epochs=2, batch_size=64)
    model.save(tmp_path)
    again = load_model(tmp_path)
    everybody = np.arange(40)
    assert np.array_equal(model.scores.block(everybody, 0, 30), again.scores.block(everybody, 0, 30))
    assert again.method.settings.as_dict() == model.method.settings.as_dict()


@pytest.mark.parametrize("backbone", [NeuMF, LightGCN])
@pytest.mark.parametrize("name", METHODS)
def test_somebody_new_gets_a_list(name, backbone):
    if name in INNER_PRODUCTS and backbone is NeuMF:
        pytest.skip(f"{name} needs inner products")
    log = skewed_log(users=40, items=30, pairs=400)
    model = make_method(name, backbone(dim=4), **QUICK.get(name, {})).fit(log, epochs=1, batch_size=64)
    found = model.fold_in([log.items[0], log.items[1]], n=5)
    assert len(found) == 5
