"""The trend of ICPE: the ratio by hand, the choice of half-life by an outside search, and its place in ranking."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from icpe import ICPE, MF
from icpe.methods.icpe import trend as module
from icpe.methods.icpe.trend import best_choice, decayed, popularity_trend, trend
from icpe.rng import stream
from icpe.testing.logs import skewed_log
from icpe.train import Trainer, TrainSettings
from icpe.train.loop import Validation

PLAIN = skewed_log(users=300, items=30, pairs=3000)


def timed(rising=range(5), seed=0):
    """A log in which the pairs of some items lie in the last fifth of the time, and all others anywhere."""
    rng = stream(seed, "times")
    late = np.isin(PLAIN.item, list(rising))
    days = np.where(late, rng.integers(800, 1000, len(PLAIN)), rng.integers(0, 1000, len(PLAIN)))
    return replace(PLAIN, timestamp=days.astype(np.int64))


def test_ratio_by_hand():
    """Ages 4, 2, 2, 0 with a half-life of 2 give weights 1/4, 1/2, 1/2, 1; half of the pairs lie within it."""
    time, item = np.array([0.0, 2.0, 2.0, 4.0]), np.array([0, 0, 1, 1])
    recent, expected = decayed(time, item, 3, half_life=0.5)
    assert recent.tolist() == [0.75, 1.5, 0.0]
    assert expected.tolist() == [1.125, 1.125, 0.5625]  # 2.25 / 4 per pair, and one pair for an item without any
    assert trend(time, item, 3, 0.5, 0.5) == pytest.approx(np.log([1.25 / 1.625, 2.0 / 1.625, 0.5 / 1.0625]))


def test_choice_is_the_best_of_an_outside_search():
    log = timed()
    order = np.argsort(log.timestamp, kind="stable")
    time, item = log.timestamp[order].astype(float), log.item[order]
    cut = round(len(item) * 0.9)
    early, late = item[:cut], item[cut:]
    found = {}
    for share in module.HALF_LIVES:
        length = time[cut - 1] - time[:cut][round((cut - 1) * (1 - share))]
        weights = [0.5 ** ((time[cut - 1] - one) / length) for one in time[:cut]]
        for smoothing in module.SMOOTHING:
            chance = np.zeros(30)
            for code in set(early.tolist()):
                mine = early == code
                change = (np.dot(weights, mine) + smoothing) / (mine.sum() * np.sum(weights) / cut + smoothing)
                chance[code] = mine.sum() * change
            chance /= chance.sum()
            found[share, smoothing] = np.mean([np.log(chance[one]) for one in late if chance[one] > 0])
    assert best_choice(time, item, 30) == max(found, key=found.get)


def test_rising_items_have_a_positive_trend():
    values = popularity_trend(timed())
    assert values[:5].min() > 0
    assert values[:5].min() > values[5:].max()


@pytest.mark.parametrize(
    "log", [replace(PLAIN, timestamp=None), replace(PLAIN, timestamp=np.full(len(PLAIN), 7, np.int64))]
)
def test_no_times_no_trend(log):
    assert not popularity_trend(log).any()
    method = ICPE(MF(dim=4))
    method.build(log, stream(0, "test"))
    assert method.ranking_options() == []
    assert method.item_bias() is None


def test_too_few_pairs_have_no_trend(monkeypatch):
    monkeypatch.setattr(module, "_FEWEST", len(PLAIN) + 1)
    assert not popularity_trend(timed()).any()


def built(log, **settings):
    method = ICPE(MF(dim=4, init_std=0.3), **settings)
    method.build(log, stream(0, "test"))
    return method.eval()


def test_ranking_adds_the_trend_in_the_unit_of_log_popularity():
    """The training score is (1 − α)·cosine/τ + propensity; a weight of 1 adds the trend to it."""
    log = timed()
    method, everybody = built(log, trend=1.0, alpha=0.2, temperature=0.3, beta=0.5), np.arange(len(log.users))
    plain = built(log, trend=0.0, alpha=0.2, temperature=0.3, beta=0.5)
    with torch.no_grad():
        tables = [one.scores().block(everybody, 0, len(log.items)) for one in (method, plain)]
    added = 0.3 / 0.8 * popularity_trend(log)
    assert np.allclose(tables[0], tables[1] + added, atol=1e-6)


@pytest.mark.parametrize("wanted", [0.0, 0.5, 1.0])
def test_validation_chooses_the_weight(wanted):
    log = timed()
    method = ICPE(MF(dim=4))
    largest = 0.2 / 0.9 * np.abs(popularity_trend(log)).max()

    def validate(method, last_share=None):
        scores = method.scores()
        bias = 0.0 if scores.item_bias is None else np.abs(scores.item_bias).max() / largest
        return Validation(1 - abs(bias - wanted), {}, None, 0.0)

    Trainer(method, log, 0, TrainSettings(epochs=1, batch_size=256), validate).run()
    assert float(method.chosen_trend) == wanted


def test_models_without_a_saved_trend_rank_without_it():
    log = timed()
    old, new = built(log, trend=0.0), built(log)
    new.choose_ranking(trend=1.0)
    kept = {name: value for name, value in old.state_dict().items() if name not in ("trend", "chosen_trend")}
    new.load_state_dict(kept)
    assert new.item_bias() is None
