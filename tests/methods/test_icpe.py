"""ICPE: gradients against autograd, identities with simpler methods, clusters that follow popularity."""

import gc
from itertools import pairwise

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from icpe import ICPE, MF, ConfigError, LightGCN, NeuMF, Normal, make_world, split
from icpe.backbones.base import Backbone
from icpe.methods import Batch, InBatch
from icpe.methods._parts import closed_form
from icpe.methods.icpe.propensity import Autoencoder, GlobalPropensity, PropensityOffset, _Kernels, _Torch
from icpe.recommender import Model
from icpe.rng import stream
from icpe.testing.logs import skewed_log
from icpe.testing.methods import check_method
from icpe.train import Trainer, TrainSettings
from icpe.train.loop import Validation

LOG = skewed_log(users=40, items=30, pairs=400)


class Bilinear(Backbone):
    """A backbone of somebody's own: s = uᵀ W i, with a common matrix and plain dense tables."""

    name = "bilinear"

    def __init__(self, dim: int = 4) -> None:
        super().__init__()
        self.dim = dim

    def build(self, train, rng):
        self.users, self.items = len(train.users), len(train.items)
        self.one, self.two = (
            nn.Parameter(torch.from_numpy(rng.normal(0, 0.3, (size, self.dim))).float())
            for size in (self.users, self.items)
        )
        self.matrix = nn.Parameter(torch.from_numpy(rng.normal(0, 0.5, (self.dim, self.dim))).float())

    def reps(self, rng=None):
        return self.one, self.two

    def interact(self, z_user, z_item):
        return (z_user @ self.matrix) * z_item

    def out(self, phi):
        return phi.sum(-1)

    def ego_users(self, users):
        return F.embedding(users, self.one)

    def ego_items(self, items):
        return F.embedding(items, self.two)

    def item_parameters(self):
        return [self.two]


BACKBONES = {
    "mf": lambda: MF(dim=4, init_std=0.3),
    "neumf": lambda: NeuMF(dim=4, layers=(8, 4), init_std=0.3),
    "lightgcn": lambda: LightGCN(dim=4, layers=2, init_std=0.3, node_dropout=0, message_dropout=0),
    "own": Bilinear,
}
each_backbone = pytest.mark.parametrize("backbone", BACKBONES.values(), ids=BACKBONES.keys())
each_loss = pytest.mark.parametrize("loss", ["bce", "softmax"])


def built(backbone, labels=None, **settings):
    """A method with parameters in float64, sampled negatives and random clusters."""
    method = ICPE(backbone(), **{"negatives": 5, "peers": 0, "shrink": 0.0, "alpha": 0.3, **settings})
    method.build(LOG, stream(0, "test"))
    method.double()
    labels = stream(1, "labels").integers(0, method.settings.clusters, len(LOG.items)) if labels is None else labels
    method.clusters.labels.copy_(torch.from_numpy(labels))
    return method


def some_batch(method, size=64, seed=0):
    rng = stream(seed, "batch")
    rows = rng.integers(0, len(LOG), size)
    users, items = (torch.from_numpy(one[rows].astype(np.int64)) for one in (LOG.user, LOG.item))
    shape = (method.negatives.count,) if method.negatives.shared else (size, method.negatives.count)
    return Batch(users, items, torch.from_numpy(rng.integers(0, len(LOG.items), shape)))


def prior(strength):
    """κ·log(n_i / mean n), rounded to float32 as the method keeps it."""
    counts = np.maximum(LOG.item_counts, 1)
    return torch.from_numpy(np.float32(strength) * np.log(counts / counts.mean()).astype(np.float32)).double()


def positive_losses(method, users, items, z_user, z_item, negatives):
    """ℓ⁺ from the formulas, for the paper's symbols; nothing of the method but its parameters is used."""
    net, alpha = method.propensity, method.settings.alpha
    fixed = prior(method.settings.strength)

    def term(rows, codes):
        hidden = rows @ net.inner.T + net.inner_bias
        hidden = torch.where(hidden > 0, hidden, 0.01 * hidden)
        return fixed[codes] + alpha * (hidden @ net.outer[0] + net.outer_bias[0])

    mine, theirs = z_user[users], z_item[items]
    if method.settings.loss == "bce":
        score = (1 - alpha) * method.backbone.score(mine, theirs) + term(theirs, items)
        return -torch.log(torch.sigmoid(score))
    others = z_item[negatives]

    def logits(left, right, codes):
        if isinstance(method.backbone, MF | LightGCN):
            length = left.norm(dim=-1) * right.norm(dim=-1)
            own = (left * right).sum(-1) / length
        else:
            own = method.backbone.score(left, right)
        return (1 - alpha) * own / method.settings.temperature + term(right, codes)

    positive = torch.exp(logits(mine, theirs, items))
    negative = torch.exp(logits(mine[:, None], others[None].expand(len(mine), -1, -1), negatives)).sum(1)
    return -torch.log(positive / (positive + negative))


def gram_by_passes(method, user, item, negatives, at):
    """K backward passes over dense tensors."""
    labels = method.clusters.label_array()
    rows = []
    for cluster in range(method.clusters.number):
        z_user, z_item = method.backbone.reps()
        parameters = method.backbone.shared_parameters()
        if at == "representations":
            z_user, z_item = z_user.detach().requires_grad_(), z_item.detach()
            parameters = [z_user, *(one for one in parameters if one.shape[0] != len(LOG.users))]
        chosen = labels[item] == cluster
        users, items = (torch.from_numpy(one[chosen].astype(np.int64)) for one in (user, item))
        loss = positive_losses(method, users, items, z_user, z_item, torch.from_numpy(negatives)).sum()
        gradients = torch.autograd.grad(loss, parameters, allow_unused=True)
        rows.append(torch.cat([one.reshape(-1) for one in gradients if one is not None]))
    stacked = torch.stack(rows)
    return (stacked @ stacked.T).numpy()


@each_loss
@each_backbone
@pytest.mark.parametrize("at", ["parameters", "representations"])
def test_full_gram_equals_one_backward_pass_per_cluster(backbone, loss, at):
    method = built(backbone, loss=loss, gram_at=at, per_item=False, features="popularity")
    method.refresh(0, seed=3)
    negatives = stream(3, "icpe/negatives/0").integers(len(LOG.items), size=method.settings.negatives)
    expected = gram_by_passes(method, LOG.user, LOG.item, negatives, at)
    assert np.allclose(method.clusters.gram.numpy(), expected, rtol=1e-9, atol=1e-12 * np.abs(expected).max())


@each_loss
@each_backbone
@pytest.mark.parametrize("at", ["parameters", "representations"])
def test_gram_of_a_batch_equals_one_backward_pass_per_cluster(backbone, loss, at):
    method = built(backbone, loss=loss, gram="batch", gram_at=at, per_item=False)
    batch = some_batch(method)
    method.loss(batch, torch.Generator().manual_seed(0))
    user, item = batch.users.numpy(), batch.items.numpy()
    expected = gram_by_passes(method, user, item, batch.negatives.reshape(-1).numpy(), at)
    assert np.allclose(method.clusters.gram.numpy(), expected, rtol=1e-9, atol=1e-12 * np.abs(expected).max())


def test_gram_per_item_is_divided_by_cluster_sizes():
    whole, each = (built(BACKBONES["mf"], per_item=one, features="popularity") for one in (False, True))
    for method in (whole, each):
        method.refresh(0, seed=0)
    sizes = np.bincount(whole.clusters.label_array())
    assert np.allclose(whole.clusters.gram.numpy(), each.clusters.gram.numpy() * np.outer(sizes, sizes))


@each_loss
@each_backbone
def test_one_backward_equals_two_separate_losses(backbone, loss):
    """Paper Eqs. 11–13: shared parameters see the weighted loss, items and propensity the plain one."""
    method = built(backbone, loss=loss, weights_on="shared", reg=0.0)
    weights = torch.from_numpy(stream(2, "weights").uniform(0.5, 2, len(LOG.items)))
    method.clusters.item_weight.copy_(weights)
    batch = some_batch(method)
    users, items = (one.detach().requires_grad_() for one in method.backbone.reps())
    method.backbone.reps = lambda rng=None: (users, items)  # gradients at the representations, for LightGCN too
    method.backbone.rows = lambda u, i, rng=None: (users[u], items[i])
    common = [one for one in method.backbone.shared_parameters() if one.shape[0] != len(LOG.users)]
    of_items = [items, *method.propensity.parameters()]
    shared = [users, *common]

    def plain(weight):
        positive = positive_losses(method, batch.users, batch.items, users, items, batch.negatives.reshape(-1))
        total = (weight * positive).mean()
        if loss == "bce":
            rows = items[batch.negatives]
            score = 0.7 * method.backbone.score(users[batch.users][:, None], rows) + 0.3 * method.propensity(rows)
            score = score + prior(method.settings.strength)[batch.negatives]
            total = total - torch.log(1 - torch.sigmoid(score)).mean()
        return total

    expected = [
        *torch.autograd.grad(plain(weights[batch.items]), shared),
        *torch.autograd.grad(plain(torch.ones(1).double()), of_items),
    ]
    found = torch.autograd.grad(method.loss(batch), [*shared, *of_items])
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-12)


@each_backbone
def test_weights_on_all_multiply_the_positive_losses(backbone):
    method = built(backbone, loss="bce", weights_on="all", reg=0.0)
    weights = torch.from_numpy(stream(2, "weights").uniform(0.5, 2, len(LOG.items)))
    method.clusters.item_weight.copy_(weights)
    batch = some_batch(method)
    users, items = method.backbone.reps()
    positive = positive_losses(method, batch.users, batch.items, users, items, None)
    plain = built(backbone, loss="bce", weights_on="none", reg=0.0).loss(batch)
    expected = plain + ((weights[batch.items] - 1) * positive).mean()
    torch.testing.assert_close(method.loss(batch), expected)


def trained(method):
    Trainer(method, LOG, 0, TrainSettings(epochs=1, batch_size=64, lr=0.003)).run()
    return {name: value for name, value in method.state_dict().items() if name.startswith("backbone.")}


def same(one, other):
    assert one.keys() == other.keys()
    # A softmax does not change if all logits do: the gradient of NeuMF's last bias is rounding, which RMSprop blows up.
    for name in one.keys() - {"backbone.output_bias"}:
        torch.testing.assert_close(one[name], other[name], rtol=1e-4, atol=1e-5)


@each_loss
@each_backbone
def test_one_cluster_equals_no_weights(backbone, loss):
    one = trained(ICPE(backbone(), loss=loss, clusters=1, weights_on="shared"))
    same(one, trained(ICPE(backbone(), loss=loss, weights_on="none")))


@each_loss
def test_uniform_bounds_that_leave_no_freedom_equal_no_weights(loss):
    bound = trained(ICPE(BACKBONES["mf"](), loss=loss, bounds=1.0, weights_on="shared"))
    same(bound, trained(ICPE(BACKBONES["mf"](), loss=loss, weights_on="none")))
    free = trained(ICPE(BACKBONES["mf"](), loss=loss, bounds=0.0, weights_on="shared"))
    assert any(not torch.allclose(bound[name], free[name], atol=1e-4) for name in bound)  # the comparison can fail


@each_loss
@each_backbone
def test_without_propensity_and_weights_it_is_normal(backbone, loss):
    plain = trained(Normal(backbone(), loss=loss, reg=1e-3))
    bare = {"strength": 0.0, "shrink": 0.0, "peers": 0, "temperature": 0.2, "weights_on": "none", "reg": 1e-3}
    same(trained(ICPE(backbone(), loss=loss, alpha=0.0, **bare)), plain)
    other = trained(ICPE(backbone(), loss=loss, alpha=0.5, **bare))
    assert any(not torch.allclose(other[name], plain[name], atol=1e-4) for name in plain)


@each_loss
@each_backbone
def test_factual_scores_rank_as_the_scores_of_training(backbone, loss):
    """β = 1 is the ablation w/o CI: Ŷ up to a factor."""
    model = Model(built(backbone, loss=loss, beta=0.0), LOG)
    method = model.method
    everybody, everything = np.arange(len(LOG.users)), torch.arange(len(LOG.items))
    table = model.adjusted(beta=1.0).scores.block(everybody, 0, len(LOG.items))
    own = model.scores.block(everybody, 0, len(LOG.items))
    with torch.no_grad():
        offset = method.offset(method.backbone.reps()[1], everything).numpy()
    unit = method.settings.temperature if loss == "softmax" else 1.0
    factual = (1 - method.settings.alpha) * own / unit + offset
    assert np.allclose((1 - method.settings.alpha) * table / unit, factual, atol=1e-5)
    assert not np.allclose(table, own, atol=1e-3)


@each_backbone
def test_propensity_term_is_popularity_plus_the_network(backbone):
    """κ·log(n_i / mean n) + α·network, and either part alone."""
    everything = torch.arange(len(LOG.items))
    method, paper, fixed = (
        built(backbone, **one)
        for one in ({"strength": 0.6}, {"strength": 0.0}, {"strength": 0.6, "propensity": "popularity"})
    )
    with torch.no_grad():
        items = method.backbone.reps()[1]
        network = _two_layers(items, *method.propensity.parameters())
        found, learned, known = (one.offset(items, everything) for one in (method, paper, fixed))
        shown = torch.from_numpy(method._propensities(items))
    torch.testing.assert_close(found, 0.3 * network + prior(0.6))
    torch.testing.assert_close(learned, 0.3 * network)
    torch.testing.assert_close(known, prior(0.6))
    torch.testing.assert_close(0.3 * shown, found)  # clusters and diagnostics see the whole S^g


@each_loss
@each_backbone
def test_closed_form_of_the_whole_propensity_equals_autograd(backbone, loss, monkeypatch):
    results = []
    for enabled in (True, False):
        monkeypatch.setattr(closed_form, "ENABLED", enabled)
        method = built(backbone, loss=loss, strength=0.6, shrink=0.3)
        value = method.loss(some_batch(method))
        grads = torch.autograd.grad(value, list(method.parameters()), allow_unused=True)
        results.append([value.detach(), *(grad for grad in grads if grad is not None)])
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-8, atol=1e-12)


def test_models_without_a_saved_prior_keep_their_propensity():
    """Early versions used the strength only where the propensity was fixed."""
    everything = torch.arange(len(LOG.items))
    for settings, strength in (({}, 0.0), ({"propensity": "popularity"}, 0.7)):
        old, new = built(BACKBONES["mf"], strength=strength, **settings), built(BACKBONES["mf"], **settings)
        new_names = ("prior", "current_temperature")
        state = {name: value for name, value in old.state_dict().items() if name not in new_names}
        new.load_state_dict(state)
        with torch.no_grad():
            items = new.backbone.reps()[1]
            torch.testing.assert_close(new.offset(items, everything), old.offset(items, everything))


def test_temperature_cools_at_plateaus_and_the_best_state_keeps_its_own():
    """.4 · .5^n after n validations without a better value; nothing else changes it."""
    method = ICPE(MF(dim=4), temperature=0.4, cooling=0.5)
    values, seen = iter([0.1, 0.3, 0.2, 0.2, 0.4, 0.1, 0.1]), []

    def validate(validated, last_share=None):
        seen.append(validated.temperature)
        return Validation(next(values), {}, None, 0.5)

    loop = TrainSettings(epochs=7, batch_size=len(LOG), evaluate_every=1, lr=0.01)
    Trainer(method, LOG, 0, loop, validate).run()
    assert seen == pytest.approx([0.4, 0.4, 0.4, 0.2, 0.1, 0.1, 0.05])
    assert method.temperature == pytest.approx(0.1)  # that of the fifth validation, the best one
    assert method.score_unit == method.temperature


def test_negatives_are_peers_where_the_backbone_and_the_settings_allow_it():
    assert ICPE(MF()).settings.peers == ICPE(LightGCN()).settings.peers == 1024
    for method in (ICPE(NeuMF()), ICPE(MF(), loss="bce"), ICPE(MF(), gram="batch"), ICPE(MF(), batch_negatives=True)):
        assert method.settings.peers == 0


def test_loss_suits_the_backbone():
    assert ICPE(MF()).settings.loss == ICPE(LightGCN()).settings.loss == "softmax"
    assert ICPE(NeuMF()).settings.loss == "bce"
    assert ICPE(NeuMF(), loss="softmax").settings.loss == ICPE(NeuMF(), batch_negatives=True).settings.loss == "softmax"


def test_beta_moves_lists_between_niche_and_head():
    world = make_world(users=300, items=120, interactions=6000, seed=0)
    model = ICPE(MF(dim=16)).fit(world.log, seed=0, epochs=10, batch_size=256, lr=1e-2)
    popular = dict(zip(world.log.items, world.log.item_counts, strict=True))
    means = []
    for beta in (-1.0, 0.0, 1.0):
        lists = model.adjusted(beta=beta).recommend(n=10)
        means.append(np.mean([popular[item] for item in lists["item_id"]]))
    assert means[0] < means[1] < means[2]
    assert model.beta == 0.0  # the model itself stays


def test_clusters_follow_popularity_on_the_demo_world():
    log = split.unbiased(make_world(seed=0).log, seed=0).train
    method = ICPE(MF())
    Trainer(method, log, 0, TrainSettings(epochs=5, batch_size=1024, lr=4e-3)).run()
    means = method.diagnostics()["popularity"]
    assert len(means) == 4
    assert all(more >= 2 * less for more, less in pairwise(means)), means


def test_diagnostics_tell_the_state():
    method = built(BACKBONES["mf"], features="popularity", weights_on="shared", bounds=0.0)
    method.refresh(0, seed=0)
    shown = method.diagnostics()
    counts, labels = LOG.item_counts, method.clusters.label_array()
    assert shown["size"] == np.bincount(labels).tolist()
    assert shown["popularity"][0] == pytest.approx(counts[labels == 0].mean())
    gram = method.clusters.gram.numpy()
    assert shown["gradient_norm"][1] == pytest.approx(np.sqrt(gram[1, 1]))
    assert shown["cosine"][0][1] == pytest.approx(gram[0, 1] / np.sqrt(gram[0, 0] * gram[1, 1]))
    item_weight = method.clusters.item_weight.numpy()
    assert np.average(item_weight, weights=counts) == pytest.approx(1)
    order = np.argsort(-counts, kind="stable")
    niche = order[-(-len(counts) // 5) :]
    assert shown["niche_weight"] == pytest.approx(item_weight[niche].mean(), rel=0.05)
    ranks = method._propensities(method.backbone.reps()[1]).argsort().argsort()
    assert -1 <= shown["spearman"] <= 1
    assert np.sign(shown["spearman"]) == np.sign(np.corrcoef(ranks, counts)[0, 1])


def test_average_of_batches_moves_slowly():
    method = built(BACKBONES["mf"], gram="ema", per_item=False)
    grams = []
    for seed in range(2):
        method.loss(some_batch(method, seed=seed), torch.Generator().manual_seed(seed))
        grams.append(method.clusters.gram.clone())
    single = built(BACKBONES["mf"], gram="batch", per_item=False)
    single.loss(some_batch(method, seed=1), torch.Generator().manual_seed(1))
    torch.testing.assert_close(grams[1], 0.9 * grams[0] + 0.1 * single.clusters.gram)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"loss": "bce", "gram": "batch", "features": "paper", "bounds": [0.8, 1.0], "runs": 3, "weights_on": "shared"},
        {"batch_negatives": True, "negatives": 4, "weights_on": "shared", "gram": "ema"},
        {"propensity": "popularity", "features": "popularity", "weights_on": "shared"},
        {"features": "plain", "recluster_every": 3, "detach": True, "weights_on": "shared"},
        {"peers": 3, "shrink": 0.1},
        {"peers": 4, "propensity": "popularity", "weights_on": "shared"},
    ],
    ids=["default", "paper", "in-batch", "popularity", "plain", "peers", "fixed peers"],
)
def test_contract_of_methods(settings):
    some = {} if not settings else {"backbones": [lambda: MF(dim=4, init_std=0.1)]}
    # Biases that are common to all logits change nothing in a softmax.
    constant = ["backbone.output_bias", "propensity.outer_bias"]
    check_method(lambda backbone: ICPE(backbone, **{"clusters": 3, **settings}), **some, untouched=constant)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"alpha": 1.0}, "alpha is 1.0"),
        ({"clusters": 0}, "clusters is 0"),
        ({"loss": "bpr"}, "loss is 'bpr'"),
        ({"bounds": 1.2}, "bounds is 1.2"),
        ({"bounds": [1.0, 0.8]}, "ascending order"),
        ({"recluster_every": "never"}, "recluster_every is 'never'"),
        ({"loss": "bce", "batch_negatives": True}, "batch_negatives"),
        ({"weights_on": "items"}, "weights_on is 'items'"),
        ({"peers": -1}, "peers is -1"),
        ({"peers": 8, "loss": "bce"}, "peers is 8 with loss='bce'"),
        ({"peers": 8, "batch_negatives": True}, "peers is 8 with batch_negatives=True"),
        ({"peers": 8, "gram": "ema"}, "peers is 8 with gram='ema'"),
    ],
)
def test_wrong_settings_are_named(settings, message):
    with pytest.raises(ConfigError, match=message):
        ICPE(MF(), **settings)


def influence(backbone, log):
    """Slopes of log‖∇L_i‖ against log n_i on an untrained model: over all user rows, and on what they share."""
    backbone.build(log, stream(0, "influence"))
    counts = log.item_counts
    items = np.argsort(-counts, kind="stable")[np.unique(np.geomspace(1, len(counts), 60).astype(int)) - 1]
    rows, shared = [], []
    for item in items:
        users = torch.from_numpy(log.user[log.item == item].astype(np.int64))
        z_user, z_item = backbone.eval().reps()
        loss = F.softplus(-backbone.score(z_user[users], z_item[int(item)].expand(len(users), -1))).sum()
        gradients = torch.autograd.grad(loss, backbone.shared_parameters(), allow_unused=True)
        tables = [one for one in gradients if one is not None and len(one) == len(log.users)]
        common = [one for one in gradients if one is not None and len(one) != len(log.users)]
        rows.append(torch.cat(tables).norm())
        shared.append(torch.cat([one.sum(0) for one in tables] + [one.reshape(-1) for one in common]).norm())
    return [np.polyfit(np.log(counts[items]), np.log(norms), 1)[0] for norms in (rows, shared)]


def test_gradient_influence_grows_as_a_power_of_popularity():
    """Paper Section 4.1: the influence of an item on a shared parameter grows as n_i to the power of 1 or more.

    It does on what all users share: common layers, or a shift of all users. On the users' rows themselves it grows
    as √n_i only, for each has a row of its own; there, propagation raises the exponent, but not to the paper's 1.5.
    """
    log = make_world(seed=0).log
    (mf_rows, mf), (_, neumf), (lightgcn_rows, lightgcn) = (
        influence(backbone, log) for backbone in (MF(), NeuMF(), LightGCN())
    )
    assert mf == pytest.approx(1, abs=0.05)
    assert neumf == pytest.approx(1, abs=0.05)
    assert lightgcn == pytest.approx(1, abs=0.05)
    assert mf_rows == pytest.approx(0.5, abs=0.05)
    assert lightgcn_rows > mf_rows + 0.05


def test_propensity_has_the_gradients_of_its_layers():
    net = GlobalPropensity(6, stream(0, "propensity")).double()
    rows = torch.from_numpy(stream(1, "rows").normal(size=(7, 6))).requires_grad_()
    assert torch.autograd.gradcheck(net, (rows,))
    torch.testing.assert_close(net(rows), _two_layers(rows, *net.parameters()))
    weights = torch.from_numpy(stream(2, "weights").normal(size=7))
    found = torch.autograd.grad((weights * net(rows)).sum(), [rows, *net.parameters()])
    expected = torch.autograd.grad((weights * _two_layers(rows, *net.parameters())).sum(), [rows, *net.parameters()])
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other)
    coder = Autoencoder(6, stream(3, "coder"))
    coder.sample = 50
    many = torch.from_numpy(stream(4, "many").normal(size=(200, 6)).astype(np.float32))
    first = coder.fit_codes(many, stream(5, "sample"))
    assert first.shape == (200, 8)
    assert float(first.std()) == pytest.approx(1, abs=1e-3)


@pytest.mark.parametrize("shrink", [0.0, 0.4])
def test_other_devices_have_the_same_propensity(shrink):
    """Between the products there are kernels on the CPU and torch's operations elsewhere."""
    net = GlobalPropensity(6, stream(0, "propensity")).double()
    rows, grads = (torch.from_numpy(stream(1, name).normal(size=size)) for name, size in (("x", (9, 6)), ("g", 9)))
    results = []
    for steps in (_Kernels, _Torch):
        offset, item_grads = PropensityOffset(net, 0.3, shrink=shrink, start=4), torch.ones(9, 6, dtype=torch.float64)
        offset._steps = steps
        value = offset.of(rows)
        results.append([value, *offset.back(grads, item_grads), item_grads, torch.tensor(offset.cost)])
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other)


def _two_layers(rows, inner, inner_bias, outer, outer_bias):
    hidden = rows @ inner.T + inner_bias
    return torch.where(hidden > 0, hidden, 0.01 * hidden) @ outer[0] + outer_bias[0]


@pytest.mark.parametrize("backbone", ["mf", "lightgcn", "neumf"])
@pytest.mark.parametrize(
    "settings",
    [{"loss": "bce"}, {"loss": "softmax", "negatives": 6, "peers": 0}, {"negatives": 6, "batch_negatives": True}],
)
def test_shrinking_adds_the_variance_of_the_offsets(backbone, settings, monkeypatch):
    """In the closed form and by autograd alike, and S^g alone is pulled together."""
    if backbone == "neumf" and settings.get("batch_negatives"):
        settings = {"loss": "softmax", "negatives": 6}
    users, items = torch.tensor([0, 1, 2, 3]), torch.tensor([5, 6, 7, 5])
    drawn = torch.tensor([1, 2, 3, 8, 9, 10]) if "negatives" in settings else torch.tensor([[1], [2], [8], [9]])
    batch = Batch(users, items, drawn)

    def results(shrink):
        method = ICPE(BACKBONES[backbone](), shrink=shrink, alpha=0.3, weights_on="none", **settings)
        method.build(LOG, stream(0, "test"))
        method.double().eval()
        loss = method.loss(batch)
        grads = torch.autograd.grad(loss, list(method.parameters()), allow_unused=True)
        return method, loss.detach(), [0 if grad is None else grad for grad in grads]

    method, plain, plain_grads = results(0.0)
    _, found, grads = results(0.7)
    offsets = method.offset(method.backbone.reps()[1][drawn.reshape(-1)], drawn.reshape(-1))
    offsets = offsets - prior(method.settings.strength)[drawn.reshape(-1)]  # the learned part alone
    cost = 0.7 * ((offsets - offsets.mean()) ** 2).mean()
    torch.testing.assert_close(found, plain + cost.detach())
    expected = torch.autograd.grad(cost, list(method.parameters()), allow_unused=True)
    for one, other, more in zip(grads, plain_grads, expected, strict=True):
        torch.testing.assert_close(one, other + (0 if more is None else more), rtol=1e-8, atol=1e-12)
    monkeypatch.setattr(closed_form, "ENABLED", False)
    _, value, slow = results(0.7)
    torch.testing.assert_close(value, found)
    for one, other in zip(grads, slow, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-8, atol=1e-12)


def test_propensity_lets_go_of_what_a_step_needed():
    """A graph that holds itself is out of reach of the garbage collector."""

    def living():
        gc.collect()
        return sum(type(one) is PropensityOffset for one in gc.get_objects())

    net, before = GlobalPropensity(6, stream(0, "propensity")), living()
    for _ in range(3):
        net(torch.ones(5, 6)).sum().backward()
    assert living() == before


@pytest.mark.parametrize("backbone", ["mf", "lightgcn"])
def test_peers_with_fixed_propensity_are_the_in_batch_softmax(backbone):
    """κ·log popularity less log popularity is a logQ correction of 1 − κ, and one group is the batch."""
    batch = Batch(torch.tensor([0, 1, 2, 3]), torch.tensor([5, 6, 7, 5]), torch.empty(0, dtype=torch.int64))
    results = []
    for make in (
        lambda one: ICPE(one, peers=4, propensity="popularity", strength=0.7, weights_on="none", temperature=0.3),
        lambda one: InBatch(one, strength=0.3, temperature=0.3, reg=0.0),
    ):
        method = make(BACKBONES[backbone]())
        method.build(LOG, stream(0, "test"))
        loss = method.double().eval().loss(batch)
        results.append([loss.detach(), *torch.autograd.grad(loss, list(method.backbone.parameters()))])
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("weights_on", ["all", "shared", "none"])
def test_peers_by_hand(weights_on):
    """A learned S^g, cluster weights and a group that is not full, from the formula; S^n + S^g less log popularity."""
    method = built(BACKBONES["mf"], peers=3, weights_on=weights_on, alpha=0.3, strength=0.6, shrink=0.2)
    method.double()
    method.clusters.item_weight.copy_(torch.linspace(0.5, 1.5, len(method.clusters.item_weight)))
    users, items = torch.tensor([0, 1, 2, 3, 4]), torch.tensor([5, 6, 5, 8, 9])
    tables = [one.detach().clone().requires_grad_() for one in method.backbone.reps()]
    cosine = F.normalize(tables[0][users], dim=1) @ F.normalize(tables[1][items], dim=1).T
    propensity = 0.3 * method.propensity(tables[1][items])
    fixed = prior(0.6)[items] - prior(1)[items]
    logits = (0.7 / method.settings.temperature * cosine + propensity + fixed).exp()
    apart = (items[:, None] != items) & (torch.arange(5)[:, None] // 3 == torch.arange(5) // 3)
    own = logits.diagonal()
    losses = -(own / (own + (logits * apart).sum(1))).log()
    weight = method.clusters.item_weight[items]
    expected = (losses * (weight if weights_on == "all" else 1)).mean() + 0.2 * propensity.var(correction=0)
    found = method.loss(Batch(users, items, torch.empty(0, dtype=torch.int64)))
    torch.testing.assert_close(found.detach(), expected.detach())
    grads = torch.autograd.grad(found, list(method.backbone.reps()))
    by_formula = torch.autograd.grad(expected, tables, retain_graph=True)
    torch.testing.assert_close(grads[1], by_formula[1])
    if weights_on == "shared":  # the users' gradient alone is weighed
        by_formula = torch.autograd.grad((losses * weight).mean(), tables)
    torch.testing.assert_close(grads[0], by_formula[0])


def test_peers_need_inner_products():
    with pytest.raises(ConfigError, match=r"peers is 8.*NeuMF scores pairs one by one"):
        ICPE(NeuMF(), peers=8)
