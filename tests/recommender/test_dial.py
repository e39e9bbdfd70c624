"""Choosing a setting of the dial by a wish, after training and during it."""

import numpy as np
import polars as pl
import pytest

from icpe import ICPE, MF, ConfigError, Normal, evaluate, load, split
from icpe.methods import METHODS, make_method
from icpe.recommender.dial import Wish
from icpe.recommender.evaluation import evaluate_part
from icpe.recommender.front import Front
from icpe.testing.logs import skewed_log

PARTS = split.random(skewed_log(users=300, items=200, pairs=9000), seed=0)
FRONT = Front(
    pl.DataFrame(
        {
            "beta": [-1.0, 0.0, 1.0, 2.0],
            "ndcg": [0.1, 0.3, 0.4, 0.2],
            "recall": [0.1, 0.3, 0.4, 0.2],
            "balanced_ndcg": [0.3, 0.4, 0.2, 0.1],
            "balanced_recall": [0.3, 0.4, 0.2, 0.1],
            "apt": [0.9, 0.6, 0.2, 0.1],
            "coverage": [0.5, 0.6, 0.2, 0.1],
        }
    ),
    20,
    1000.0,
)


@pytest.fixture(scope="module")
def model():
    return ICPE(MF(dim=8), clusters=2).fit(PARTS.train, valid=PARTS.valid, epochs=8)


def test_goals_take_the_best_measured_setting():
    assert Wish(goal="traffic").choose(FRONT) == 1.0
    assert Wish(goal="balanced").choose(FRONT) == 0.0


def test_a_niche_share_is_met_between_the_measured_settings():
    assert Wish(niche_share=0.4).choose(FRONT) == pytest.approx(0.5)
    assert Wish(niche_share=0.6).choose(FRONT) == 0.0
    assert Wish(niche_share=0.1).choose(FRONT) == 2.0


def test_keep_takes_the_most_niche_places_that_leave_enough_accuracy():
    # 90 % of .4 is .36, which the curve has between beta 0 (.3) and beta 1 (.4).
    assert Wish(keep=0.9).choose(FRONT) == pytest.approx(0.6)
    assert Wish(keep=1.0).choose(FRONT) == 1.0
    assert Wish(keep=0.0).choose(FRONT) == -1.0


@pytest.mark.parametrize("share", [0.05, 0.95])
def test_an_impossible_niche_share_names_the_reachable_range(share):
    with pytest.raises(ConfigError, match=rf"a share of {share:g}; it reaches from 0\.100 to 0\.900"):
        Wish(niche_share=share).choose(FRONT)


@pytest.mark.parametrize(
    ("wish", "message"),
    [
        ({}, "found none"),
        ({"niche_share": 0.4, "keep": 0.9}, "found niche_share=0.4, keep=0.9"),
        ({"niche_share": 40}, "niche_share is 40; expected a share from 0 to 1"),
        ({"keep": float("nan")}, "keep is nan"),
        ({"goal": "fame"}, "goal is 'fame'; expected one of traffic, balanced"),
        ({"beta": "much"}, "beta is 'much'; expected a finite number"),
    ],
)
def test_unclear_wishes_are_errors(wish, message):
    with pytest.raises(ConfigError, match=message):
        Wish(**wish)


def test_an_unknown_wish_is_an_error(model):
    with pytest.raises(ConfigError, match=r"niche_shar.*niche_share"):
        model.dial(niche_shar=0.4)


def test_a_wished_niche_share_is_what_the_lists_have(model):
    shares = model.front()["apt"]
    wished = float((shares.min() + shares.max()) / 2)
    found = model.dial(niche_share=wished)
    assert evaluate_part(found, PARTS, "valid").values["apt@20"] == pytest.approx(wished, abs=0.02)
    assert evaluate(found, PARTS).values["apt@20"] == pytest.approx(wished, abs=0.05)
    assert model.beta != found.beta, "the model itself must not change"


def test_training_leaves_the_dial_at_the_best_setting_of_the_validation_part(model):
    front = model.front()
    assert model.beta == front["beta"][np.argmax(front["ndcg"])]
    assert evaluate_part(model, PARTS, "valid").values["ndcg@20"] == pytest.approx(front["ndcg"].max())


def test_goals_of_training():
    def fit(**settings):
        return Normal(MF(dim=8)).fit(PARTS.train, valid=PARTS.valid, epochs=4, **settings)

    at_rest, traffic, balanced, niche = (
        fit(goal="none"),
        fit(),
        fit(goal="balanced"),
        fit(niche_share=0.5),
    )
    assert at_rest.beta == 0.0
    assert traffic.beta == fit(goal="traffic").beta != 0.0
    assert traffic.front()["ndcg"].max() == pytest.approx(evaluate_part(traffic, PARTS, "valid").values["ndcg@20"])
    best = balanced.front()["balanced_ndcg"]
    assert balanced.beta == balanced.front()["beta"][np.argmax(best)]
    assert evaluate_part(niche, PARTS, "valid").values["apt@20"] == pytest.approx(0.5, abs=0.02)


@pytest.mark.parametrize("name", METHODS)
def test_the_dial_of_every_method_that_learns_is_chosen_by_default(name):
    """Log popularity would turn a random ranking into one by popularity, so the baselines stay as they are."""
    method = make_method(name, MF(dim=4))
    model = method.fit(PARTS.train, valid=PARTS.valid, epochs=1)
    best = model.front()["beta"][np.argmax(model.front()["ndcg"])]
    assert model.beta == (0.0 if name in ("popularity", "random") else best)


@pytest.mark.parametrize("goal", ["traffic", "balanced", "none"])
def test_a_setting_given_by_hand_is_kept(goal):
    for method in (ICPE(MF(dim=8), clusters=2, beta=0.7), Normal(MF(dim=8), beta=0.7)):
        model = method.fit(PARTS.train, valid=PARTS.valid, epochs=2, goal=goal)
        assert model.beta == 0.7
        assert 0.7 in model.front()["beta"]


def test_a_niche_share_out_of_reach_warns_after_training_instead_of_losing_it():
    # Twelve of the sixty items are head items, so that lists of twenty items need eight niche items.
    parts = split.random(skewed_log(users=100, items=60, pairs=2000), seed=0)
    with pytest.warns(UserWarning, match="it reaches from"):
        model = Normal(MF(dim=8)).fit(parts.train, valid=parts.valid, epochs=1, niche_share=0.1, goal="traffic")
    assert evaluate_part(model, parts, "valid").values["apt@20"] == pytest.approx(model.front()["apt"].min(), abs=0.05)


def test_a_saved_model_keeps_its_setting_and_its_front(model, tmp_path):
    dialled = model.dial(keep=0.8)
    dialled.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.beta == dialled.beta
    assert again.front().table.equals(model.front().table)
    assert again.recommend(n=5).equals(dialled.recommend(n=5))


def test_the_dial_changes_scores_by_the_direction(model):
    users, items = list(model.log.users[:1]) * 3, list(model.log.items[:3])
    scores = [model.dial(beta=beta).score(users, items) for beta in (0.0, 1.0, 2.0)]
    assert scores[2] - scores[1] == pytest.approx(scores[1] - scores[0], abs=1e-5)
    assert np.abs(scores[1] - scores[0]).max() > 0


def test_new_users_are_dialled_too():
    model = Normal(MF(dim=8)).fit(PARTS.train, epochs=1)
    history = list(model.log.items[:3])
    counts = dict(zip(model.log.items, model.log.item_counts, strict=True))
    popular, niche = (model.dial(beta=beta).fold_in(history)["item_id"].to_list() for beta in (30.0, -30.0))
    assert np.mean([counts[item] for item in popular]) > 3 * np.mean([counts[item] for item in niche])
