"""Exponents of exact power laws, the bound's terms by hand, and the whole on a small world."""

import math
from itertools import product

import numpy as np
import pytest
import torch

from icpe import ConfigError, DataError, make_world
from icpe.paper.analysis.bound import bound_terms, cover_rate, rademacher_term, trajectory
from icpe.paper.analysis.influence import influence_exponent, power_fit
from icpe.paper.analysis.logits import pair_logits
from icpe.rng import stream
from icpe.runs.config import RunConfig
from icpe.testing import skewed_log

LOG = skewed_log(users=60, items=30, pairs=800)


def test_exact_power_law():
    popularity = np.array([1, 3, 7, 20, 55])
    fit = power_fit(popularity, 0.3 * popularity**1.5)
    assert fit.slope == pytest.approx(1.5)
    assert math.exp(fit.intercept) == pytest.approx(0.3)
    assert fit.low == pytest.approx(1.5, abs=1e-6)
    assert fit.high == pytest.approx(1.5, abs=1e-6)
    assert fit.r2 == pytest.approx(1)


def test_interval_by_hand():
    """Three points around a line: residuals (a, −2a, a), one degree of freedom, t = 12.7062."""
    noise = 0.1 * np.array([1.0, -2.0, 1.0])
    fit = power_fit(np.exp([0.0, 1.0, 2.0]), np.exp(np.array([0.0, 1.0, 2.0]) + noise))
    error = math.sqrt((noise @ noise) / 1 / 2)  # residual variance / Σ (x − mean)²
    assert fit.slope == pytest.approx(1)
    assert fit.high - fit.slope == pytest.approx(12.7062 * error, rel=1e-4)
    assert fit.slope - fit.low == pytest.approx(12.7062 * error, rel=1e-4)


def test_interval_covers_the_truth_nineteen_times_of_twenty():
    rng, inside = np.random.default_rng(0), 0
    popularity = np.geomspace(1, 500, 40)
    for _ in range(400):
        fit = power_fit(popularity, popularity**0.5 * np.exp(rng.normal(0, 0.3, 40)))
        inside += fit.low <= 0.5 <= fit.high
    assert 365 <= inside <= 393  # 380 ± 3 standard deviations


@pytest.mark.parametrize("norms", [[1.0, 2.0], [1.0, 0.0, 2.0]])
def test_no_power_law_through_too_little(norms):
    with pytest.raises(DataError, match="power law"):
        power_fit(np.arange(1, len(norms) + 1), np.array(norms))


def test_exponents_on_the_demo_world():
    """One on what all users share, one half on their own rows, and a little more there with propagation."""
    log = make_world(seed=0).log
    slopes = {}
    for name in ("mf", "neumf", "lightgcn"):
        found = influence_exponent({"name": name, "dim": 16}, log, initialisations=2, items=40)
        slopes |= {(name, place): slope for place, slope in found.fits.select("place", "slope").iter_rows()}
        assert set(found.points["place"]) == {"rows", "common", "shared"}
        assert (found.fits["low"] < found.fits["slope"]).all()
        assert (found.fits["high"] > found.fits["slope"]).all()
    for name in ("mf", "neumf", "lightgcn"):
        assert slopes[name, "common"] == pytest.approx(1, abs=0.07)
    assert slopes["mf", "rows"] == pytest.approx(0.5, abs=0.05)
    assert slopes["neumf", "rows"] == pytest.approx(0.5, abs=0.05)
    assert slopes["lightgcn", "rows"] > slopes["mf", "rows"] + 0.03
    assert slopes["mf", "shared"] == slopes["mf", "rows"]


def test_norms_of_initialisations_are_averaged():
    many = influence_exponent({"dim": 4}, LOG, initialisations=3, items=10)
    steps = []
    one = influence_exponent({"dim": 4}, LOG, 1, items=10, on_step=lambda done, total: steps.append((done, total)))
    assert steps == [(1, 1)]
    assert one.fits["spread"].to_list() == [0, 0, 0]
    assert many.fits["spread"].min() > 0
    assert one.points["item_id"].equals(many.points["item_id"])


def test_rademacher_term_by_hand():
    # One item: max of ±2 and ±0.5 is 2 for a plus and −0.5 for a minus.
    assert rademacher_term(np.array([[2.0], [0.5]]), stream(0, "signs"))[0] == 0.75
    two = np.array([[1.0, 2.0], [3.0, 1.0], [0.0, 0.0]])
    exact = np.mean([max(np.dot(signs, row) for row in two) for signs in product([-1, 1], repeat=2)])
    value, error = rademacher_term(two, stream(0, "signs"), draws=20_000)
    assert abs(value - exact) < 4 * error
    assert 0 < error < 0.02


def test_one_hypothesis_has_no_complexity():
    """What the paper prints, without a supremum, is 0."""
    value, error = rademacher_term(np.random.default_rng(0).random((1, 50)), stream(0, "signs"))
    assert value == error == 0


def test_rate_by_hand():
    assert cover_rate(1000, 1, delta=0.05) == pytest.approx(math.sqrt(2 / 1000 * math.log(20)))
    assert cover_rate(1000, 3) == pytest.approx(math.sqrt(2 / 3000 * math.log(41**2 / 0.05)))


@pytest.fixture(scope="module", params=["bce", "softmax"])
def run(request):
    config = RunConfig(
        backbone={"name": "mf", "dim": 4},
        method={"name": "icpe", "loss": request.param, "clusters": 3},
        train={"epochs": 6, "batch_size": 128, "lr": 0.02, "seed": 0},
    )
    return trajectory(config, LOG, checkpoints=3)


def test_trajectory_ends_at_the_last_state(run):
    assert len(run.states) == 3
    assert all(torch.equal(value, run.method.state_dict()[name]) for name, value in run.states[-1].items())
    first, last = (state["backbone.user_table"] for state in (run.states[0], run.states[-1]))
    assert not torch.allclose(first, last)


def test_terms_by_hand_for_one_cluster(run):
    frame = bound_terms(run, clusters=[1, 3])
    row = frame.row(0, named=True)
    assert row["weights"] == [1.0]
    losses, norms, ranges = [], [], []
    for state in run.states:
        run.method.load_state_dict(state)
        users, items = (table.detach().clone() for table in run.method.backbone.reps())
        users.requires_grad_()
        score = users @ items.T
        if run.method.settings.loss == "softmax":
            score = score / users.norm(dim=1, keepdim=True) / items.norm(dim=1) / run.method.settings.temperature
        ranges.append((score.max() - score.min()).item())
        loss = -torch.log(torch.sigmoid(score[LOG.user, LOG.item])).sum() / len(LOG.items)
        losses.append(loss.item())
        norms.append(torch.autograd.grad(loss, users)[0].norm().item())
    assert row["risk"] == pytest.approx(losses[-1], rel=1e-4)
    assert row["lipschitz"] == pytest.approx(max(norms), rel=1e-4)
    assert row["diameter"] == pytest.approx(math.hypot(max(ranges), 1), rel=1e-4)
    rate = math.sqrt(2 / len(LOG) * math.log(20))
    assert row["cover_term"] == pytest.approx(max(norms) * math.hypot(max(ranges), 1) * rate, rel=1e-4)
    assert row["bound"] == pytest.approx(row["risk"] + row["rademacher"] + row["cover_term"])
    several = frame.row(1, named=True)
    assert several["found"] == len(several["sizes"]) > 1
    assert sum(several["weights"]) == pytest.approx(1)
    assert sum(several["sizes"]) == len(LOG.items)
    assert several["rate"] == pytest.approx(cover_rate(len(LOG), several["found"]))


def test_looking_leaves_the_run_as_it_was(run):
    before = pair_logits(run.method, LOG.user, LOG.item)
    first = bound_terms(run, clusters=[2])
    assert np.array_equal(before, pair_logits(run.method, LOG.user, LOG.item))
    assert first.equals(bound_terms(run, clusters=[2]))


def test_wrong_use_is_named():
    with pytest.raises(ConfigError, match="the configuration has 'normal'"):
        trajectory(RunConfig(), LOG)
    with pytest.raises(ConfigError, match="initialisations is 0"):
        influence_exponent({}, LOG, initialisations=0)
