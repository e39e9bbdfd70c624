"""The front of a model: the same numbers as an evaluation at each setting, and settings for every niche share."""

import numpy as np
import polars as pl
import pytest

from icpe import ICPE, MF, DataError, Normal, split
from icpe.data.popularity import head_mask, log_popularity
from icpe.metrics import evaluate_lists
from icpe.ranking import top_n
from icpe.ranking.sweep import item_bias
from icpe.ranking.tables import DotScores, with_bias
from icpe.recommender.evaluation import evaluate_part, front_on_test
from icpe.recommender.front import MEASURES, SHARES, Front, Meter, rounded, settings_for
from icpe.testing.logs import skewed_log

PARTS = split.random(skewed_log(users=200, items=150, pairs=6000), seed=0)


def random_table(seed=0, dim=6):
    rng = np.random.default_rng(seed)
    return DotScores(
        *(rng.normal(size=(len(ids), dim)).astype(np.float32) for ids in (PARTS.train.users, PARTS.train.items))
    )


@pytest.fixture(scope="module")
def model():
    return Normal(MF(dim=8)).fit(PARTS.train, valid=PARTS.valid, epochs=3)


def test_every_row_equals_an_evaluation_at_its_setting():
    table, direction = random_table(), log_popularity(PARTS.train.item_counts)
    front = Meter(PARTS.train, PARTS.valid, 20).front(table, direction, [2.0, -1.5, 0.0], [PARTS.train])
    assert front["beta"].tolist() == [-1.5, 0.0, 2.0]
    users = np.flatnonzero(PARTS.valid.user_counts).astype(np.int32)
    for row in front.table.iter_rows(named=True):
        lists = top_n(with_bias(table, item_bias(direction, row["beta"])), users, 20, hide=[PARTS.train])
        values = evaluate_lists(lists, PARTS.valid, PARTS.train).values
        for name in MEASURES:
            assert row[name] == pytest.approx(values[f"{name}@20"], abs=1e-12), name
    assert front.effective_size == values["balanced_pairs"]


def test_lists_longer_than_the_catalogue_have_empty_places():
    log = skewed_log(users=60, items=12, pairs=400)
    parts = split.random(log, seed=0)
    rng = np.random.default_rng(1)
    table = DotScores(*(rng.normal(size=(len(ids), 3)).astype(np.float32) for ids in (log.users, log.items)))
    front = Meter(parts.train, parts.valid, 20).front(table, np.zeros(len(log.items)), [0.0], [parts.train])
    users = np.flatnonzero(parts.valid.user_counts).astype(np.int32)
    values = evaluate_lists(top_n(table, users, 20, hide=[parts.train]), parts.valid, parts.train).values
    assert {name: front[name][0] for name in MEASURES} == pytest.approx(
        {name: values[f"{name}@20"] for name in MEASURES}
    )


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_settings_reach_the_asked_niche_shares_whatever_the_unit_of_the_scores(scale):
    table, direction = random_table(), log_popularity(PARTS.train.item_counts)
    table = DotScores(scale * table.user_vectors, table.item_vectors)
    niche = ~head_mask(PARTS.train.item_counts)
    users = np.arange(len(PARTS.train.users), dtype=np.int32)
    placed = settings_for(SHARES, table, direction, users, niche, 20, [PARTS.train])
    assert len(placed) > 8
    front = Meter(PARTS.train, PARTS.valid, 20).front(table, direction, list(placed.values()), [PARTS.train])
    shares = sorted(placed, reverse=True)  # the niche share falls as the setting rises
    assert front["apt"] == pytest.approx(shares, abs=0.03)
    assert np.all(np.diff(front["apt"]) < 0)


def test_items_of_equal_popularity_leave_nothing_to_dial():
    table = random_table()
    flat = np.zeros(len(PARTS.train.items), np.float32)
    niche = ~head_mask(PARTS.train.item_counts)
    assert settings_for(SHARES, table, flat, np.arange(10, dtype=np.int32), niche, 20, []) == {}


def test_a_fitted_model_has_the_front_of_its_validation_part(model):
    assert model.has_front
    again = Normal(MF(dim=8)).fit(PARTS.train, valid=PARTS.valid, epochs=3).front(PARTS.valid)
    assert again.table.equals(model.front().table)
    assert model.front().n == 20
    at_rest = dict(
        zip(model.front().table.columns, model.front().table.row(by_predicate=pl.col("beta") == 0), strict=True)
    )
    values = evaluate_part(model.dial(beta=0.0), PARTS, "valid").values
    assert at_rest["ndcg"] == pytest.approx(values["ndcg@20"], abs=1e-12)


def test_the_test_part_is_measured_at_the_settings_of_the_validation_part(model):
    front = front_on_test(model, PARTS)
    assert front["beta"].tolist() == model.front()["beta"].tolist()
    beta = float(front["beta"][2])
    values = evaluate_part(model.dial(beta=beta), PARTS, "test").values
    assert {name: front[name][2] for name in MEASURES} == pytest.approx(
        {name: values[f"{name}@20"] for name in MEASURES}
    )


def test_without_a_validation_part_there_is_no_front_until_one_is_measured():
    model = Normal(MF(dim=4)).fit(PARTS.train, epochs=1)
    with pytest.raises(DataError, match=r"has no front yet.*model\.front\(valid\)"):
        model.front()
    with pytest.raises(DataError, match="has no front yet"):
        model.dial(goal="traffic")
    assert len(model.front(PARTS.valid).table) > 5
    assert model.dial(goal="traffic").front() is model.front()


def test_a_front_survives_a_frame(model):
    front = Front.from_frame(model.front().as_frame())
    assert front.table.equals(model.front().table)
    assert (front.n, front.effective_size) == (model.front().n, model.front().effective_size)


def test_summaries_of_a_front():
    columns = {name: [0.1, 0.3] for name in MEASURES} | {"apt": [0.6, 0.2], "coverage": [0.5, 0.4]}
    front = Front(pl.DataFrame({"beta": [0.0, 1.0]} | columns), 20, 1e3)
    assert front.hypervolume == pytest.approx(0.6 * 0.1 + 0.2 * 0.2)
    assert front.balanced_hypervolume == pytest.approx(0.4 * 0.3 + 0.1 * 0.1)
    assert front.ndcg_at(0.4) == pytest.approx(0.2)
    assert front.ndcg_at(0.7) is None
    assert front.at(0.5)["apt"] == pytest.approx(0.4)


def test_the_front_of_icpe_contains_the_counterfactual_and_the_training_score():
    model = ICPE(MF(dim=8)).fit(PARTS.train, valid=PARTS.valid, epochs=2)
    assert {0.0, 1.0, model.beta} <= set(model.front()["beta"].tolist())


def test_settings_have_three_significant_digits():
    assert (rounded(0.123456), rounded(-1234.5), rounded(0.0)) == (0.123, -1230.0, 0.0)
