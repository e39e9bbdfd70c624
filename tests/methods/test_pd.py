"""PD and PDA: the loss computed from its formula, identities, and ranking without and with popularity."""

import numpy as np
import polars as pl
import pytest
import torch

from icpe import MF, ConfigError, Interactions, NeuMF, Normal
from icpe.methods import PD, Batch
from icpe.ranking import top_n
from icpe.ranking.tables import DotScores
from icpe.rng import stream
from icpe.testing.logs import skewed_log
from icpe.testing.methods import SMALL, check_method
from icpe.train import Trainer, TrainSettings
from icpe.train.sampling import Sampler

LOG = skewed_log(users=40, items=30, pairs=400)
SHARE = (LOG.item_counts + 1.0) / (LOG.item_counts.max() + 1.0)


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


def table_of(method):
    with torch.no_grad():
        users, items = method.backbone.reps()
        return method.backbone.score(users[:, None], items[None]).numpy()


def match(scores):
    """f = ELU(s) + 1."""
    return np.where(scores > 0, scores + 1, np.exp(scores))


@pytest.mark.parametrize(
    ("settings", "backbones"), [({}, [*SMALL, lambda: Own(dim=3)]), ({"negatives": 2, "ranking_power": 0.4}, SMALL)]
)
def test_contract(settings, backbones):
    check_method(lambda backbone: PD(backbone, **settings), backbones)


@pytest.mark.parametrize("backbone", [MF, Own, lambda **settings: NeuMF(layers=(8, 4), **settings)])
@pytest.mark.parametrize(("power", "count"), [(0.0, 1), (0.1, 1), (0.7, 3)])
def test_loss_by_hand(backbone, power, count):
    method = built(PD(backbone(dim=4, init_std=0.7), negatives=count, popularity_power=power, reg=0.02)).double()
    batch = batch_of(method, 200)
    matches = match(table_of(method)) * SHARE**power  # with power 0, this is BPR on f alone
    user = batch.users.numpy()
    positive, negative = matches[user, batch.items.numpy()], matches[user[:, None], batch.negatives.numpy()]
    expected = np.log1p(np.exp(-(positive[:, None] - negative))).mean() + method.penalty(batch).item()
    assert method.loss(batch).item() == pytest.approx(expected, rel=1e-6)


def test_gradients_by_differences():
    method = built(PD(MF(dim=2, init_std=0.8), negatives=2, popularity_power=0.3, reg=0.05)).double()
    batch = batch_of(method, 20)
    tables = method.backbone.user_table, method.backbone.item_table

    def loss(users, items):
        method.backbone.user_table, method.backbone.item_table = users, items
        return method.loss(batch)

    for name in ("user_table", "item_table"):
        delattr(method.backbone, name)
    assert torch.autograd.gradcheck(loss, tables)


def test_no_item_loses_its_gradient():
    ids = pl.Series(range(4)), pl.Series(range(5))
    counted = Interactions.from_codes(*ids, np.arange(4, dtype=np.int32), np.array([0, 0, 0, 1], np.int32))
    method = PD(MF(dim=3, init_std=0.5), popularity_power=0.25, reg=0.0)
    method.build(counted, stream(0, "test"))
    assert np.allclose(method.factor, (np.array([4, 2, 1, 1, 1]) / 4) ** 0.25)
    method.loss(Batch(torch.tensor([3]), torch.tensor([1]), torch.tensor([[4]]))).backward()
    assert method.backbone.item_table.grad[[1, 4]].abs().min() > 0


def test_ranking_is_that_of_the_match():
    method = built(PD(MF(dim=4, init_std=0.7), popularity_power=0.2))
    with torch.no_grad():
        scores = method.scores()
    assert isinstance(scores, DotScores)
    assert scores.item_bias is None
    found = scores.block(np.arange(40), 0, 30)
    assert np.allclose(found, table_of(method), atol=1e-6)
    assert np.array_equal(np.argsort(found, 1), np.argsort(match(table_of(method)), 1))


@pytest.mark.parametrize("power", [0.05, 0.2, 1.5])
def test_ranking_with_popularity(power):
    method = built(PD(MF(dim=4, init_std=0.7), popularity_power=0.2, ranking_power=power))
    with torch.no_grad():
        found = method.scores().block(np.arange(40), 0, 30)
    expected = match(table_of(method).astype(float)) * SHARE**power
    assert np.allclose(np.exp(found.astype(float)), expected, rtol=1e-5)
    assert np.array_equal(np.argsort(found, 1), np.argsort(expected, 1))
    assert not np.array_equal(np.argsort(found, 1), np.argsort(table_of(method), 1))


def test_ranking_power_can_be_changed_after_training():
    model = PD(MF(dim=4, init_std=0.5)).fit(LOG, epochs=5, lr=0.01)
    popular = [
        LOG.item_counts[
            top_n(model.adjusted(ranking_power=power).scores, np.arange(40, dtype=np.int32), 5).items
        ].mean()
        for power in (0.0, 0.5, 50.0)
    ]
    assert popular[0] < popular[1] < popular[2]
    assert popular[2] == np.sort(LOG.item_counts)[-5:].mean()
    with pytest.raises(ConfigError, match="ranking setting of 'pd' 'popularity_power'"):
        model.adjusted(popularity_power=0.3)
    with pytest.raises(ConfigError, match="ranking_power is -1"):
        model.adjusted(ranking_power=-1)


def test_ranking_power_changes_neither_training_nor_fold_in():
    one, two = PD(MF(dim=4)), PD(MF(dim=4), ranking_power=0.3)
    for method in (one, two):
        Trainer(method, LOG, 0, TrainSettings(epochs=3, batch_size=64, lr=0.01)).run()
    for name, value in one.state_dict().items():
        assert torch.equal(value, two.state_dict()[name])
    positive, negative = torch.tensor([0.5, -1.0]), torch.tensor([0.1, -0.3, 2.0])
    logs = (torch.from_numpy(np.log(match(scores.numpy()))) for scores in (positive, negative))
    torch.testing.assert_close(one.user_loss(positive, negative), two.user_loss(*logs))


def exposed_log(users=150, items=240, groups=5):
    """Each group of users likes its own items equally; some items are exposed much more often than others."""
    rng = np.random.default_rng(0)
    shown = np.exp(rng.uniform(np.log(0.05), np.log(0.6), items))
    ours = (np.arange(users) % groups)[:, None] == np.arange(items) % groups
    user, item = np.nonzero(ours & (rng.random(ours.shape) < shown))
    ids = pl.Series(range(users)), pl.Series(range(items))
    return Interactions.from_codes(*ids, user.astype(np.int32), item.astype(np.int32)), ours


def test_lists_contain_less_popular_items_than_those_of_normal():
    log, ours = exposed_log()
    everybody, means = np.arange(len(log.users), dtype=np.int32), []
    for method in (Normal(MF(dim=16), loss="bpr"), PD(MF(dim=16)), PD(MF(dim=16), popularity_power=0.25)):
        model = method.fit(log, epochs=40, batch_size=128, lr=0.01)
        lists = top_n(model.scores, everybody, 10, hide=[log])
        assert ours[everybody[:, None], lists.items].mean() > 0.95  # the model has learnt the preferences
        means.append(log.item_counts[lists.items].mean())
    assert means[2] < 0.9 * means[1] < 0.9 * means[0]
    newcomer = model.fold_in([0, 5, 10], n=10)["item_id"].to_numpy()
    assert (newcomer % 5 == 0).all()  # items of the first group


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"popularity_power": -1}, "popularity_power is -1; expected a number of at least 0"),
        ({"ranking_power": float("nan")}, "ranking_power is nan"),
        ({"negatives": 0}, "negatives is 0"),
    ],
)
def test_bad_settings(settings, words):
    with pytest.raises(ConfigError, match=words):
        PD(MF(), **settings)


def test_defaults_are_in_the_search_space():
    settings = PD(MF()).settings.as_dict()
    assert all(settings[name] in values for name, values in PD.Settings.search_space().items())
