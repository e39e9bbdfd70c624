"""IPS: weights and losses computed from their formulas, identities with Normal, and the effect on lists."""

import numpy as np
import polars as pl
import pytest
import torch

from icpe import MF, ConfigError, Interactions, LightGCN, NeuMF, Normal
from icpe.methods import IPS, Batch
from icpe.methods._parts.exposure import item_propensities
from icpe.methods.ips import clipped
from icpe.ranking import top_n
from icpe.rng import stream
from icpe.testing.logs import skewed_log
from icpe.testing.methods import SMALL, check_method
from icpe.train import Trainer, TrainSettings
from icpe.train.sampling import Sampler

LOG = skewed_log(users=40, items=30, pairs=400)


class Own(MF):
    """A user-defined backbone whose scores are not inner products and whose tables are not trained by row."""

    name = "own"
    inner_product = False

    def row_tables(self):
        return [], []


def built(method):
    method.build(LOG, stream(0, "test"))
    return method


def batch_of(method, size=64):
    return Batch.of(next(Sampler(LOG, method.negatives, size, seed=0).epoch(0)))


@pytest.mark.parametrize("settings", [{}, {"loss": "bpr", "negatives": 2, "divide_by": "batch", "clip_percentile": 90}])
def test_contract(settings):
    check_method(lambda backbone: IPS(backbone, **settings), [*SMALL, lambda: Own(dim=3)])


@pytest.mark.parametrize(
    ("backbone", "divide_by"),
    [(MF, "mean"), (MF, "max"), (MF, "batch"), (NeuMF, "mean"), (LightGCN, "mean"), (Own, "batch")],
)
@pytest.mark.parametrize("loss", ["bce", "bpr"])
def test_power_zero_is_normal(backbone, loss, divide_by):
    states = []
    for method in (
        IPS(backbone(), loss=loss, propensity_power=0.0, divide_by=divide_by),
        Normal(backbone(), loss=loss),
    ):
        Trainer(method, LOG, 0, TrainSettings(epochs=2, batch_size=64)).run()
        states.append(method.backbone.state_dict())
    for name, value in states[0].items():
        assert torch.equal(value, states[1][name]), name


@pytest.mark.parametrize("percentile", [0, 10, 37.5, 50, 75, 99, 100])
@pytest.mark.parametrize("power", [0.25, 0.5, 1.0])
def test_clipping_and_power_commute(percentile, power):
    once = 1 / item_propensities(LOG.item_counts, 1.0)
    first = clipped(once, percentile) ** power
    last = clipped(1 / item_propensities(LOG.item_counts, power), percentile)
    assert np.allclose(first, last, rtol=1e-12)


def test_median_clip_gives_the_less_popular_half_one_weight():
    counts = np.array([1, 2, 3, 4, 8, 16, 80])
    weights = clipped(1 / item_propensities(counts, 1.0), 50)
    assert np.allclose(weights / weights.max(), [1, 1, 1, 1, 4 / 8, 4 / 16, 4 / 80])
    assert np.allclose(clipped(1 / item_propensities(counts, 1.0), 100), 80 / counts)
    assert np.allclose(
        item_propensities(np.array([0, 2]), 1.0), [0.5, 1.0]
    )  # an item without pairs counts as if it had one


@pytest.mark.parametrize("power", [0.3, 1.0])
@pytest.mark.parametrize("percentile", [50, 90, 100])
def test_weights_are_normalised(power, percentile):
    settings = {"propensity_power": power, "clip_percentile": percentile}
    by_mean = built(IPS(MF(), **settings)).weight
    assert float(by_mean[LOG.item.astype(np.int64)].double().mean()) == pytest.approx(1, abs=1e-6)
    by_max = built(IPS(MF(), **settings, divide_by="max")).weight
    assert float(by_max.max()) == 1
    torch.testing.assert_close(by_mean / by_mean.max(), by_max)


def weights_by_hand(power, percentile, divide_by):
    weights = [(max(LOG.item_counts) / max(count, 1)) ** power for count in LOG.item_counts]
    bound = sorted(weights)[int(percentile / 100 * (len(weights) - 1))]
    weights = [min(weight, bound) for weight in weights]
    whole = {"mean": np.mean([weights[item] for item in LOG.item]), "max": max(weights), "batch": 1.0}[divide_by]
    return np.array(weights) / whole


@pytest.mark.parametrize("backbone", [MF, Own, lambda **settings: NeuMF(layers=(8, 4), **settings)])
@pytest.mark.parametrize("loss", ["bce", "bpr"])
@pytest.mark.parametrize("divide_by", ["mean", "max", "batch"])
def test_loss_by_hand(backbone, loss, divide_by):
    settings = {"propensity_power": 0.8, "clip_percentile": 75, "divide_by": divide_by}
    method = built(IPS(backbone(dim=4, init_std=0.7), loss=loss, negatives=3, reg=0.02, **settings)).double()
    batch = batch_of(method)
    weights = weights_by_hand(0.8, 75, divide_by)[batch.items.numpy()]
    if divide_by == "batch":
        weights = weights * len(weights) / weights.sum()
    with torch.no_grad():
        users, items = method.backbone.reps()
        table = method.backbone.score(users[:, None], items[None]).numpy()
    user, negatives = batch.users.numpy(), batch.negatives.numpy()
    positive, negative = table[user, batch.items.numpy()], table[user[:, None], negatives]
    if loss == "bce":
        expected = (weights * np.log1p(np.exp(-positive))).mean() + np.log1p(np.exp(negative)).mean()
    else:
        expected = (weights[:, None] * np.log1p(np.exp(negative - positive[:, None]))).mean()
    expected += method.penalty(batch).item()
    assert method.loss(batch).item() == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("loss", ["bce", "bpr"])
def test_closed_form_has_the_gradients_of_the_formula(loss):
    one, two = (built(IPS(kind(dim=4), loss=loss, negatives=2, reg=0.1)).double() for kind in (MF, Own))
    for method in (one, two):
        method.loss(batch_of(method)).backward()
    for name, parameter in one.named_parameters():
        torch.testing.assert_close(parameter.grad, dict(two.named_parameters())[name].grad)


def test_gradient_of_a_positive_is_weighted():
    method = built(IPS(Own(dim=4), reg=0.0)).double()
    users, items = torch.tensor([3]), torch.tensor([7])
    method.loss(Batch(users, items, torch.tensor([[9]]))).backward()
    with torch.no_grad():
        user, item = method.backbone.user_table[3], method.backbone.item_table[7]
        slope = method.weight[7] * (torch.sigmoid(user @ item) - 1)
    torch.testing.assert_close(method.backbone.item_table.grad[7], slope * user)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"loss": "softmax"}, "loss is 'softmax'; expected one of bce, bpr"),
        ({"propensity_power": -1}, "propensity_power is -1; expected a number of at least 0"),
        ({"clip_percentile": 101}, "clip_percentile is 101; expected a number of at least 0 and at most 100"),
        ({"divide_by": "sum"}, "divide_by is 'sum'; expected one of mean, max, batch"),
        ({"negatives": 0}, "negatives is 0"),
        ({"temperature": 0.2}, "no setting 'temperature'"),
    ],
)
def test_bad_settings(settings, words):
    with pytest.raises(ConfigError, match=words):
        IPS(MF(), **settings)


def test_defaults_are_in_the_search_space():
    settings = IPS(MF()).settings.as_dict()
    assert all(settings[name] in values for name, values in IPS.Settings.search_space().items())


def exposed_log(users=150, items=240, groups=5):
    """Each group of users likes its own items equally; some items are exposed much more often than others."""
    rng = np.random.default_rng(0)
    shown = np.exp(rng.uniform(np.log(0.05), np.log(0.6), items))
    ours = (np.arange(users) % groups)[:, None] == np.arange(items) % groups
    user, item = np.nonzero(ours & (rng.random(ours.shape) < shown))
    ids = pl.Series(range(users)), pl.Series(range(items))
    return Interactions.from_codes(*ids, user.astype(np.int32), item.astype(np.int32)), ours


@pytest.mark.parametrize("loss", ["bce", "bpr"])
def test_lists_contain_less_popular_items_than_those_of_normal(loss):
    log, ours = exposed_log()
    everybody, means = np.arange(len(log.users), dtype=np.int32), []
    for kind in (Normal, IPS):
        model = kind(MF(dim=16), loss=loss).fit(log, epochs=40, batch_size=128, lr=0.01)
        lists = top_n(model.scores, everybody, 10, hide=[log])
        assert ours[everybody[:, None], lists.items].mean() > 0.95  # the model has learnt the preferences
        means.append(log.item_counts[lists.items].mean())
    assert means[1] < 0.98 * means[0]
