"""Pareto MTL on a problem with a known front, fronts by hand and by chance, and the whole on a small log."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from icpe import ICPE, MF, ConfigError, LightGCN, NeuMF, Normal, evaluate, split
from icpe.data.popularity import head_mask
from icpe.methods import Batch, PopularityPenalty
from icpe.paper.analysis.dial_front import dial_front
from icpe.paper.analysis.fronts import dominated, hypervolume, hypervolumes
from icpe.paper.analysis.loss_front import group_losses, loss_front, loss_point, reference_points
from icpe.paper.analysis.pareto_mtl import ParetoMTL, preference_vectors, step_weights, violations
from icpe.rng import stream
from icpe.runs.config import RunConfig
from icpe.testing import skewed_log

PARTS = split.unbiased(skewed_log(users=80, items=40, pairs=1500), seed=0)
QUICK = {"epochs": 8, "batch_size": 128, "lr": 0.02}


def config(backbone="mf", method="normal", **settings):
    return RunConfig(
        backbone={"name": backbone, "dim": 4}, method={"name": method, **settings}, train={**QUICK, "seed": 0}
    )


def two_hills(point):
    """The example of Lin et al.: L_i = 1 − exp(−‖x ∓ 1/√d‖²); the front is the segment between the two centres."""
    centre = np.full(len(point), 1 / np.sqrt(len(point)))
    apart = np.stack([point - centre, point + centre])
    near = np.exp(-np.square(apart).sum(axis=1))
    return 1 - near, 2 * apart * near[:, None]


def descended(chosen, preferences, steps=300, rate=0.2, size=20):
    point = np.random.default_rng(chosen).uniform(-0.3, 0.3, size)
    for step in range(steps):
        losses, gradients = two_hills(point)
        factors = step_weights(losses, gradients @ gradients.T, preferences, chosen, feasibility=step < steps // 5)
        point = point - rate * factors @ gradients
    return point


def test_end_points_follow_preferences_along_a_known_front():
    preferences = preference_vectors(5)
    points = [descended(chosen, preferences) for chosen in range(5)]
    losses = np.stack([two_hills(point)[0] for point in points])
    assert np.all(np.diff(losses[:, 0]) < 0)
    assert np.all(np.diff(losses[:, 1]) > 0)
    assert not dominated(-losses).any()
    for chosen, (point, found) in enumerate(zip(points, losses, strict=True)):
        assert np.abs(point - point.mean()).max() < 0.02  # on the line through both centres
        assert abs(point.mean()) < 1 / np.sqrt(len(point)) + 0.01  # and between them
        assert (violations(found, preferences, chosen) <= 0.02).all()


def test_a_step_lowers_both_losses_inside_the_sector():
    """The shortest vector of the hull descends on all that span it."""
    rng = np.random.default_rng(0)
    preferences = preference_vectors(5)
    for _ in range(50):
        gradients, chosen = rng.normal(size=(2, 3)), int(rng.integers(5))
        factors = step_weights(preferences[chosen], gradients @ gradients.T, preferences, chosen)
        assert (gradients @ (factors @ gradients) >= -1e-9).all()
        assert np.abs(factors).sum() == pytest.approx(1)


def test_outside_its_sector_a_step_leads_back():
    preferences = preference_vectors(4)
    losses = np.array([0.2, 1.0])  # belongs to the last preference
    before = violations(losses, preferences, 0)
    assert (before > 0).any()
    assert (violations(losses, preferences, 3) <= 0).all()
    factors = step_weights(losses, np.eye(2), preferences, 0, feasibility=True)
    after = violations(
        losses - 0.1 * factors, preferences, 0
    )  # orthogonal gradients: losses move apart from each other
    assert (after[before > 0] < before[before > 0]).all()


def test_without_gradients_nothing_is_preferred():
    weights = step_weights(np.ones(2), np.zeros((2, 2)), preference_vectors(2), 0)
    assert np.isfinite(weights).all()


points_of_a_plane = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=1, max_size=12)


@given(points_of_a_plane)
def test_dominated_as_by_brute_force(points):
    expected = [any(q[0] >= p[0] and q[1] >= p[1] and q != p for q in points) for p in points]
    assert dominated(np.array(points, float)).tolist() == expected


@given(points_of_a_plane)
def test_hypervolume_counts_cells(points):
    """On whole numbers the area is the number of unit cells below some point."""
    cells = {(x, y) for a, b in points for x in range(1, a) for y in range(1, b)}
    assert hypervolume(np.array(points, float), np.ones(2)) == pytest.approx(len(cells))


def test_hypervolume_as_by_chance():
    rng = np.random.default_rng(0)
    points, darts = rng.random((9, 2)), rng.random((100_000, 2))
    hit = (points[None] >= darts[:, None]).all(axis=2).any(axis=1).mean()
    assert hypervolume(points, np.zeros(2)) == pytest.approx(hit, abs=0.005)
    assert hypervolume(points, np.ones(2)) == 0


def test_fronts_are_compared_from_the_worst_of_all():
    fronts = {"one": np.array([[1.0, 3.0], [2.0, 1.0]]), "other": np.array([[3.0, 2.0]])}
    assert hypervolumes(fronts) == {"one": 0.0, "other": 2.0}


@pytest.mark.parametrize("backbone", [MF(dim=4), NeuMF(dim=4, layers=(8, 4)), LightGCN(dim=4, layers=2)])
def test_renewal_takes_losses_and_gram_of_both_groups(backbone):
    method = ParetoMTL(backbone, preferences=preference_vectors(3).tolist(), chosen=1)
    method.build(PARTS.train, stream(0, "test"))
    method.double().eval()
    gram = method.gram(0, 0)
    head = torch.from_numpy(head_mask(PARTS.train.item_counts)[PARTS.train.item])
    z_user, z_item = backbone.reps()
    users, items = (torch.from_numpy(one.astype(np.int64)) for one in (PARTS.train.user, PARTS.train.item))
    losses = F.softplus(-backbone.score(z_user[users], z_item[items]))
    means = [losses[head].mean(), losses[~head].mean()]
    shared = backbone.shared_parameters()
    passes = [torch.autograd.grad(mean, shared, retain_graph=True) for mean in means]
    flat = [torch.cat([one.reshape(-1) for one in gradients]) for gradients in passes]
    expected = [[float(a @ b) for a in flat] for b in flat]
    assert np.allclose(gram, expected, rtol=1e-9)
    assert method.losses.tolist() == pytest.approx([mean.item() for mean in means])
    method.refresh(0, seed=0)
    weights, counts = method.item_weight.numpy(), PARTS.train.item_counts
    assert np.average(weights, weights=counts) == pytest.approx(1)
    factors = step_weights(method.losses.numpy(), gram, preference_vectors(3), 1, feasibility=False)
    of_head = head_mask(counts)
    assert weights[of_head][0] * counts[of_head].sum() / counts.sum() == pytest.approx(factors[0])


@pytest.mark.parametrize("backbone", ["mf", "neumf"])
def test_weights_of_one_are_normal(backbone):
    found = []
    for kind in (lambda one: ParetoMTL(one, preferences=preference_vectors(2).tolist(), chosen=0), Normal):
        method = kind(config(backbone).make_method().backbone)
        method.build(PARTS.train, stream(0, "test"))
        batch = Batch(torch.tensor([0, 1]), torch.tensor([2, 3]), torch.tensor([[4], [5]]))
        found.append(method.loss(batch).item())
    assert found[0] == pytest.approx(found[1])


def test_front_of_a_small_log():
    seen = []
    front = loss_front(config(), PARTS, preferences=3, on_step=lambda done, total: seen.append((done, total)))
    assert front["preference"].to_list() == [0, 1, 2]
    assert seen[-1][0] == seen[-1][1] == len(seen)
    assert front["niche_loss"][0] < front["niche_loss"][2]
    assert front["head_loss"][0] > front["head_loss"][2]
    assert front["feasible"].sum() >= 2
    expected = dominated(-front.select("head_loss", "niche_loss").to_numpy())
    assert front["dominated"].to_list() == expected.tolist()
    again = loss_front(config(), PARTS, preferences=3)
    assert again.equals(front)


def test_losses_of_groups_by_hand():
    model = Normal(MF(dim=4)).fit(PARTS.train, seed=0, **QUICK)
    frame = PARTS.train.to_frame()
    scores = model.score(frame["user_id"], frame["item_id"]).astype(float)
    popular = dict(zip(PARTS.train.items, PARTS.train.item_counts, strict=True))
    fifth = sorted(popular, key=lambda item: (-popular[item], item))[: -(-len(popular) // 5)]
    head = np.isin(frame["item_id"], fifth)
    expected = [np.log1p(np.exp(-scores[mask])).mean() for mask in (head, ~head)]
    assert group_losses(model, PARTS.train) == pytest.approx(expected, rel=1e-5)


def test_levelling_takes_a_shift_of_all_scores_back():
    method = Normal(NeuMF(dim=4, layers=(8, 4)))
    model = method.fit(PARTS.train, seed=0, **QUICK)
    before = loss_point(model, PARTS.train)
    with torch.no_grad():
        model.method.backbone.output_bias += 2.0
    after = loss_point(model, PARTS.train)
    assert after["head_loss"] < before["head_loss"]
    assert after["negative_loss"] > before["negative_loss"]
    assert after["shift"] == pytest.approx(before["shift"] - 2, abs=1e-4)
    for name in ("head_levelled", "niche_levelled"):
        assert after[name] == pytest.approx(before[name], abs=1e-4)


def test_reference_points_are_trained_alike():
    methods = {"Normal": {"name": "normal"}, "ICPE": {"name": "icpe", "loss": "bce", "clusters": 2}}
    points = reference_points(config(), PARTS, methods)
    assert points["label"].to_list() == ["Normal", "ICPE", "ICPE with S^g"]
    model = Normal(MF(dim=4)).fit(PARTS.train, seed=0, **QUICK)
    assert points.row(0)[1:3] == pytest.approx(group_losses(model, PARTS.train))
    assert points["head_loss"][1] != points["head_loss"][2]


def test_dial_of_beta_is_that_of_the_model():
    model = ICPE(MF(dim=4)).fit(PARTS.train, seed=0, **QUICK)
    front = dial_front(model, PARTS, [-1.0, 0.0, 1.0], "beta")
    values = evaluate(model.adjusted(beta=1.0), PARTS).values
    assert front.row(2)[:4] == (1.0, *(values[name] for name in ("ndcg@20", "apt@20", "coverage@20")))
    assert front["apt@20"].is_sorted(descending=True)
    assert front["dominated"].to_list() == dominated(front.select("ndcg@20", "apt@20").to_numpy()).tolist()


@pytest.mark.parametrize("loss", ["bce", "softmax"])
def test_dial_of_the_penalty_is_that_of_the_method(loss):
    model = Normal(MF(dim=4), loss=loss).fit(PARTS.train, seed=0, **QUICK)
    front = dial_front(model, PARTS, [0.0, 0.7], "penalty")
    rival = PopularityPenalty(MF(dim=4), loss=loss, strength=0.7).fit(PARTS.train, seed=0, **QUICK)
    expected = evaluate(rival, PARTS).values
    assert front.row(1)[1:4] == pytest.approx([expected[name] for name in ("ndcg@20", "apt@20", "coverage@20")])
    assert front["apt@20"][1] > front["apt@20"][0]


def test_wrong_use_is_named():
    with pytest.raises(ConfigError, match="'normal'.*'bce'.*the configuration has 'icpe'"):
        loss_front(config(method="icpe"), PARTS)
    with pytest.raises(ConfigError, match="preferences is 0"):
        loss_front(config(), PARTS, preferences=0)
    model = Normal(MF(dim=4)).fit(PARTS.train, seed=0, epochs=1)
    with pytest.raises(ConfigError, match="kind is 'gamma'"):
        dial_front(model, PARTS, [1.0], "gamma")
    with pytest.raises(ConfigError, match="beta is 10000000"):
        dial_front(model, PARTS, [1e7], "beta")
    with pytest.raises(ConfigError, match="chosen is 3"):
        ParetoMTL(MF(), preferences=preference_vectors(2).tolist(), chosen=3)
