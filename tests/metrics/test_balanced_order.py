"""Balanced NDCG on an ordinary part orders models as plain NDCG does on a part that is uniform over items."""

import importlib
from pathlib import Path

import numpy as np
import pytest

from icpe import make_world, open_log

SEEDS = (0, 1, 2)


@pytest.fixture
def order(monkeypatch):
    """The experiment of the benchmark, which prints the same for more and larger models."""
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "bench")
    return importlib.import_module("balanced_order")


def mean_correlations(order, logs):
    """Rank correlation of balanced and of plain NDCG with the uniform part, over nine models, as means over logs."""
    compared = [
        order.Trained("popularity", "popularity"),
        order.Trained("random", "random"),
        order.Trained("normal", "normal"),
        order.Trained("penalty", "penalty", {"strength": 0.7}),
        order.Trained("logit adjustment", "logit_adjustment"),
        order.Trained("icpe", "icpe", betas=(0.0, 0.25, 0.5, 1.0)),
    ]
    tables = [order.measure(log, seed, compared, dim=16, epochs=20, lr=1e-2) for seed, log in enumerate(logs)]
    assert {len(table) for table in tables} == {9}
    found = [order.correlations(table) for table in tables]
    return [float(np.mean([one[name] for one in found])) for name in ("balanced", "plain")]


def small_world(seed):
    return make_world(users=1500, items=600, interactions=30_000, seed=seed).log


def test_the_two_tests_share_training_and_only_one_repeats_popularity(order):
    log = small_world(0)
    ordinary, uniform = order.two_tests(log, seed=0)
    assert uniform.train is ordinary.train
    assert uniform.valid is ordinary.valid
    parts = [ordinary.train, ordinary.valid, ordinary.test, uniform.test]
    pairs = np.concatenate([part.to_frame().select("user_id", "item_id").rows() for part in parts])
    assert sorted(map(tuple, pairs.tolist())) == sorted(log.to_frame().select("user_id", "item_id").rows())
    skew = [np.corrcoef(ordinary.train.item_counts, part.item_counts)[0, 1] for part in parts[2:]]
    assert skew[0] > 0.9
    assert skew[1] < 0.3


def test_balanced_ndcg_orders_models_of_a_world_as_the_uniform_part_does(order):
    """Measured: .92 for balanced and .49 for plain NDCG."""
    balanced, plain = mean_correlations(order, [small_world(seed) for seed in SEEDS])
    assert balanced >= 0.8
    assert balanced > plain + 0.1


@pytest.mark.realdata
@pytest.mark.slow
def test_balanced_ndcg_orders_models_of_lastfm_as_the_uniform_part_does(order, real_data):
    """Measured: .95 for balanced and .25 for plain NDCG."""
    balanced, plain = mean_correlations(order, [open_log("lastfm", data_dir=real_data)] * len(SEEDS))
    assert balanced >= 0.85
    assert balanced > plain + 0.3
