"""A world fitted to a log: the choice model against an outside optimiser, and what the world takes over from the log."""

import json

import numpy as np
import polars as pl
import pytest
from scipy.optimize import minimize

from icpe import ConfigError, Interactions, World, make_world
from icpe.ranking.tables import FixedScores
from icpe.simulate import LoopSettings, fit_world, simulate
from icpe.simulate.arms import held_out_pairs
from icpe.simulate.fidelity import measure_fidelity, repeat_share
from icpe.simulate.fitted import fit_choice
from icpe.simulate.population import Population


@pytest.fixture(scope="module")
def log():
    """A log without names and times, with integer ids and every fifth row twice."""
    rows = make_world(users=120, items=80, interactions=2400, seed=2).log.to_frame()
    numbers = pl.col("user_id", "item_id").str.slice(1).cast(pl.Int64)
    frame = rows.select(numbers)
    return Interactions.read(pl.concat([frame, frame.gather_every(5)]))


@pytest.fixture(scope="module")
def fitted(log):
    return fit_world(log, epochs=8)


def test_sharpness_and_pull_have_the_highest_likelihood():
    rng = np.random.default_rng(0)
    users, items = 40, 25
    scores = rng.normal(size=(users, items)).astype(np.float32)
    train = Interactions.from_codes(
        pl.Series(range(users)),
        pl.Series(range(items)),
        *np.array(sorted({*map(tuple, rng.integers(25, size=(150, 2)))})).T,
    )
    logits = 1.7 * scores + 0.6 * np.log(np.maximum(train.item_counts, 0.5))
    logits[train.user, train.item] = -np.inf
    chosen = [rng.choice(items, p=np.exp(row) / np.exp(row).sum()) for row in logits]
    valid = Interactions.from_codes(train.users, train.items, np.arange(users), np.array(chosen))

    def loss(weights):
        made = weights[0] * scores.astype(float) + weights[1] * np.log(np.maximum(train.item_counts, 0.5))
        made[train.user, train.item] = -np.inf
        return -np.mean(made[valid.user, valid.item] - np.log(np.exp(made).sum(axis=1))[valid.user])

    outside = minimize(loss, [1, 1], method="Nelder-Mead", options={"xatol": 1e-8, "fatol": 1e-12})
    found = fit_choice(FixedScores(scores), train, valid)
    assert (found.sharpness, found.pull) == pytest.approx(outside.x, abs=1e-4)
    assert found.likelihood == pytest.approx(-outside.fun, abs=1e-9)
    assert found.by_popularity == pytest.approx(-loss([0, 1]), abs=1e-9)


def test_the_world_takes_over_ids_popularity_and_the_assumed_liking(log, fitted, tmp_path):
    world, choice = fitted
    assert world.log is log
    assert choice.sharpness > 0
    assert choice.likelihood > choice.by_popularity
    expected = log.item_counts**choice.pull
    np.testing.assert_allclose(world.exposure, expected / expected.sum())
    unseen = log.keep(held_out_pairs(log, 0))
    utility = 1 / (1 + np.exp(-Population.of(world).preference(unseen.user, unseen.item[:, None])))
    assert utility.mean() == pytest.approx(0.6, abs=1e-4)
    world.save(tmp_path)
    again = World.load(tmp_path)
    assert again.log.users.equals(log.users)
    assert again.log.items.equals(log.items)
    assert again.log.timestamp is None
    assert again.log.item_info is None
    np.testing.assert_array_equal(again.item_traits, world.item_traits)


def test_repeats_are_those_of_the_log(log):
    assert repeat_share(log.reading) == pytest.approx(480 / 2880)


def test_a_world_of_one_choice_reproduces_its_log_exactly():
    """Everybody has item 0, which is the only one that anybody ever finds."""
    log = Interactions.from_codes(pl.Series(["a", "b"]), pl.Series(["x", "y"]), np.array([0, 1]), np.array([0, 0]))
    world = World(
        log, np.ones((2, 1), np.float32), np.ones((2, 1), np.float32), np.zeros(2, np.float32), np.array([1.0, 0])
    )
    found = measure_fidelity(Population.of(world), LoopSettings(candidates=2))
    assert (found["users"], found["choices"], found["ks"]) == (2, 2, 0)
    assert found["rank_correlation"] == pytest.approx(1)
    assert (found["log_gini"], found["world_gini"]) == (0.5, 0.5)
    assert (found["log_coverage"], found["world_coverage"]) == (0.5, 0.5)


def test_tastes_bring_the_world_closer_to_the_log(fitted):
    world, _ = fitted
    indifferent = World(world.log, 0 * world.user_tastes, world.item_traits, world.item_appeal, world.exposure)
    settings = LoopSettings(candidates=40, herding=0.0)
    with_taste, without = (measure_fidelity(Population.of(one), settings) for one in (world, indifferent))
    assert with_taste["rank_correlation"] > 0.6
    assert with_taste["ks"] < 0.25
    assert with_taste["head_share_correlation"] > without["head_share_correlation"] + 0.1


def test_visits_that_repeat_bring_nothing_new(log, tmp_path):
    found = simulate(log, ["popularity"], tmp_path, rounds=2, n=5, repeat=0.5, candidates=20, train={"epochs": 1})
    totals = found.measures.filter(group="all", arm="none", adoption=0.0).select("visits", "repeats", "consumed").sum()
    visits, repeats, consumed = totals.row(0)
    assert repeats / visits == pytest.approx(0.5, abs=0.1)
    assert 0 < consumed <= visits - repeats
    fit = json.loads((tmp_path / "fit.json").read_text())
    assert fit["world_repeats"] == 0.5
    before = {path: path.read_bytes() for path in (tmp_path / "world").iterdir()}
    (tmp_path / "measures.parquet").unlink()
    again = simulate(log, ["popularity"], tmp_path, rounds=2, n=5, repeat=0.5, candidates=20, train={"epochs": 1})
    assert {path: path.read_bytes() for path in (tmp_path / "world").iterdir()} == before
    assert again.fit == found.fit


def test_mistakes(log, tmp_path):
    with pytest.raises(ConfigError, match="liking is 1.2; expected a share between 0 and 1"):
        simulate(log, ["popularity"], tmp_path / "new", liking=1.2)
    assert not (tmp_path / "new").exists()
