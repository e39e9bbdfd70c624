"""The boost of niche items: what it adds, what it leaves as it is, and how a wish finds it."""

import numpy as np
import pytest

from icpe import ICPE, MF, ConfigError, DataError, NeuMF, Normal, evaluate, load, split
from icpe.backbones import LightGCN
from icpe.data.popularity import head_mask
from icpe.recommender.evaluation import evaluate_part
from icpe.recommender.saved_vectors import read_recommender
from icpe.testing.logs import skewed_log

PARTS = split.random(skewed_log(users=300, items=200, pairs=9000), seed=0)
HEAD = head_mask(PARTS.train.item_counts)
EVERYBODY = np.arange(len(PARTS.train.users), dtype=np.int32)
METHODS = {
    "icpe": lambda: ICPE(MF(dim=8), clusters=2),
    "normal": lambda: Normal(MF(dim=8)),
    "softmax": lambda: Normal(LightGCN(dim=8, layers=1), loss="softmax", temperature=0.5),
    "neumf": lambda: Normal(NeuMF(dim=8)),
}


@pytest.fixture(scope="module", params=METHODS)
def model(request):
    return METHODS[request.param]().fit(PARTS.train, valid=PARTS.valid, epochs=4)


def scores(model):
    return model.scores.block(EVERYBODY, 0, len(PARTS.train.items))


def on(model, part):
    return evaluate_part(model, PARTS, part).values


def test_it_adds_one_unit_of_the_training_score_to_niche_items(model):
    added = scores(model.adjusted(boost=1.5)) - scores(model)
    np.testing.assert_allclose(added[:, HEAD], 0.0, atol=1e-5)
    np.testing.assert_allclose(added[:, ~HEAD], 1.5 * model.method.score_unit, atol=1e-5)


def test_the_order_of_niche_items_stays(model):
    niche = PARTS.train.items.filter(~HEAD)
    before, after = (one.recommend(PARTS.train.users, n=20, items=niche) for one in (model, model.adjusted(boost=2.0)))
    # Scores that differ by less than a rounding error of the boosted ones may change places.
    without_boost = model.score(after["user_id"], after["item_id"])
    np.testing.assert_allclose(without_boost, before["score"], atol=1e-6)


def test_more_boost_gives_more_places_to_niche_items(model):
    shares = [on(model.adjusted(boost=boost), "valid")["apt@20"] for boost in (0.0, 1.0, 3.0, 1000.0)]
    assert shares == sorted(shares)
    assert shares[-1] > 0.99 > shares[0]


@pytest.mark.parametrize("share", [0.5, 0.8])
def test_a_niche_share_costs_no_more_than_by_the_dial_alone(model, share):
    dialled, boosted = model.dial(niche_share=share), model.dial(PARTS.valid, niche_share=share, boost=True)
    assert on(boosted, "valid")["apt@20"] == pytest.approx(share, abs=0.05)
    # Settings lie between measured ones, so that a choice can miss its value on the curve by a little.
    assert on(boosted, "valid")["ndcg@20"] >= 0.97 * on(dialled, "valid")["ndcg@20"]


def test_it_saves_accuracy_where_popularity_pays():
    model = METHODS["icpe"]().fit(PARTS.train, valid=PARTS.valid, epochs=8)
    dialled, boosted = model.dial(niche_share=0.8), model.dial(PARTS.valid, niche_share=0.8, boost=True)
    assert boosted.boost > 0
    assert on(boosted, "valid")["ndcg@20"] > 1.1 * on(dialled, "valid")["ndcg@20"]


def test_a_share_of_the_accuracy_is_kept(model):
    best = model.front()["ndcg"].max()
    kept, alone = model.dial(PARTS.valid, keep=0.9, boost=True), model.dial(keep=0.9)
    assert on(kept, "valid")["ndcg@20"] == pytest.approx(0.9 * best, rel=0.05)
    assert on(kept, "valid")["apt@20"] >= on(alone, "valid")["apt@20"] - 0.02


def test_the_front_belongs_to_the_boost(model):
    boosted = model.dial(PARTS.valid, niche_share=0.8, boost=True)
    assert boosted.front().at(boosted.beta)["apt"] == pytest.approx(on(boosted, "valid")["apt@20"])
    assert boosted.dial(niche_share=0.9).boost == boosted.boost
    assert not model.adjusted(boost=0.7).has_front
    with pytest.raises(DataError, match=r"model\.front\(valid\)"):
        model.adjusted(boost=0.7).dial(keep=0.9)


def test_saved_models_and_saved_vectors_have_it(model, tmp_path):
    boosted = model.dial(PARTS.valid, niche_share=0.8, boost=True)
    boosted.save(tmp_path)
    lists = boosted.recommend(PARTS.train.users, n=10)
    assert load(tmp_path).setting == boosted.setting
    assert load(tmp_path).recommend(PARTS.train.users, n=10).equals(lists)
    if (without_torch := read_recommender(tmp_path)) is not None:
        assert without_torch.recommend(PARTS.train.users, n=10).equals(lists)


def test_new_users_get_it(model):
    histories = [PARTS.train.items[:5].to_list(), PARTS.train.items[20:30].to_list()]
    lists = model.adjusted(boost=1000.0).fold_in(histories, n=20)
    assert not lists["item_id"].is_in(PARTS.train.items.filter(HEAD).implode()).any()


def test_metrics_see_it(model):
    values = evaluate(model.adjusted(boost=1000.0), PARTS).values
    assert values["apt@20"] == 1.0
    assert values["recall_head@20"] == 0.0


def test_wrong_wishes_say_what_is_right(model):
    with pytest.raises(ConfigError, match="boost helps to meet niche_share or keep; found goal"):
        model.dial(PARTS.valid, goal="traffic", boost=True)
    with pytest.raises(ConfigError, match="boost is 'yes'; expected True or False"):
        model.dial(PARTS.valid, keep=0.9, boost="yes")
    with pytest.raises(DataError, match="measured on the validation part; pass it"):
        model.dial(keep=0.9, boost=True)
    with pytest.raises(ConfigError, match="boost"):
        model.adjusted(boost=-1.0)
