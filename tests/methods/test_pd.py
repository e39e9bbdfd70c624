"""PD and PDA: loss from the formula, identities, ranking with popularity left out and put back."""

import numpy as np
import polars as pl
import pytest
import torch

from icpe import MF, ConfigError, Interactions, NeuMF, Normal
from icpe.methods import Batch
from icpe.methods.pd import PD
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
    """A backbone of one's own: no inner products and no tables of rows to speak of."""

    name = "own"

    def vectors(self, z_user, z_item):
        return None

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
    ("settings", "backbones"), [({}, [*SMALL, lambda: Own(dim=3)]), ({"negatives": 2, "inject": 0.4}, SMALL)]
)
def test_contract(settings, backbones):
    check_method(lambda backbone: PD(backbone, **settings), backbones)


@pytest.mark.parametrize("backbone", [MF, Own, lambda **settings: NeuMF(layers=(8, 4), **settings)])
@pytest.mark.parametrize(("gamma", "count"), [(0.0, 1), (0.1, 1), (0.7, 3)])
def test_loss_by_hand(backbone, gamma, count):
    method = built(PD(backbone(dim=4, init_std=0.7), negatives=count, gamma=gamma, reg=0.02)).double()
    batch = batch_of(method, 200)
    matches = match(table_of(method)) * SHARE**gamma  # γ = 0: BPR on f alone
    user = batch.users.numpy()
    positive, negative = matches[user, batch.items.numpy()], matches[user[:, None], batch.negatives.numpy()]
    expected = np.log1p(np.exp(-(positive[:, None] - negative))).mean() + method.penalty(batch).item()
    assert method.loss(batch).item() == pytest.approx(expected, rel=1e-6)


def test_gradients_by_differences():
    method = built(PD(MF(dim=2, init_std=0.8), negatives=2, gamma=0.3, reg=0.05)).double()
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
    method = PD(MF(dim=3, init_std=0.5), gamma=0.25, reg=0.0)
    method.build(counted, stream(0, "test"))
    assert np.allclose(method.factor, (np.array([4, 2, 1, 1, 1]) / 4) ** 0.25)
    method.loss(Batch(torch.tensor([3]), torch.tensor([1]), torch.tensor([[4]]))).backward()
    assert method.backbone.item_table.grad[[1, 4]].abs().min() > 0


def test_ranking_is_that_of_the_match():
    method = built(PD(MF(dim=4, init_std=0.7), gamma=0.2))
    with torch.no_grad():
        scores = method.scores()
    assert isinstance(scores, DotScores)
    assert scores.item_bias is None
    found = scores.block(np.arange(40), 0, 30)
    assert np.allclose(found, table_of(method), atol=1e-6)
    assert np.array_equal(np.argsort(found, 1), np.argsort(match(table_of(method)), 1))


@pytest.mark.parametrize("inject", [0.05, 0.2, 1.5])
def test_popularity_put_back(inject):
    method = built(PD(MF(dim=4, init_std=0.7), gamma=0.2, inject=inject))
    with torch.no_grad():
        found = method.scores().block(np.arange(40), 0, 30)
    expected = match(table_of(method).astype(float)) * SHARE**inject
    assert np.allclose(np.exp(found.astype(float)), expected, rtol=1e-5)
    assert np.array_equal(np.argsort(found, 1), np.argsort(expected, 1))
    assert not np.array_equal(np.argsort(found, 1), np.argsort(table_of(method), 1))


def test_popularity_may_be_put_back_after_training():
    model = PD(MF(dim=4, init_std=0.5)).fit(LOG, epochs=5, lr=0.01)
    popular = [
        LOG.item_counts[top_n(model.adjusted(inject=inject).scores, np.arange(40, dtype=np.int32), 5).items].mean()
        for inject in (0.0, 0.5, 50.0)
    ]
    assert popular[0] < popular[1] < popular[2]
    assert popular[2] == np.sort(LOG.item_counts)[-5:].mean()
    with pytest.raises(ConfigError, match="no setting 'gamma'"):
        model.adjusted(gamma=0.3)
    with pytest.raises(ConfigError, match="inject is -1"):
        model.adjusted(inject=-1)


def test_injection_does_not_alter_training_or_what_is_learnt_of_a_newcomer():
    one, two = PD(MF(dim=4)), PD(MF(dim=4), inject=0.3)
    for method in (one, two):
        Trainer(method, LOG, 0, TrainSettings(epochs=3, batch_size=64, lr=0.01)).run()
    for name, value in one.state_dict().items():
        assert torch.equal(value, two.state_dict()[name])
    positive, negative = torch.tensor([0.5, -1.0]), torch.tensor([0.1, -0.3, 2.0])
    logs = (torch.from_numpy(np.log(match(scores.numpy()))) for scores in (positive, negative))
    torch.testing.assert_close(one.user_loss(positive, negative), two.user_loss(*logs))


def exposed_log(users=150, items=240, groups=5):
    """Groups of users with items of their own, all equally liked; some items are shown much more than others."""
    rng = np.random.default_rng(0)
    shown = np.exp(rng.uniform(np.log(0.05), np.log(0.6), items))
    ours = (np.arange(users) % groups)[:, None] == np.arange(items) % groups
    user, item = np.nonzero(ours & (rng.random(ours.shape) < shown))
    ids = pl.Series(range(users)), pl.Series(range(items))
    return Interactions.from_codes(*ids, user.astype(np.int32), item.astype(np.int32)), ours


def test_lists_hold_less_popular_items_than_those_of_normal():
    log, ours = exposed_log()
    everybody, means = np.arange(len(log.users), dtype=np.int32), []
    for method in (Normal(MF(dim=16), "bpr"), PD(MF(dim=16)), PD(MF(dim=16), gamma=0.25)):
        model = method.fit(log, epochs=40, batch_size=128, lr=0.01)
        lists = top_n(model.scores, everybody, 10, hide=[log])
        assert ours[everybody[:, None], lists.items].mean() > 0.95  # it has learnt what people like
        means.append(log.item_counts[lists.items].mean())
    assert means[2] < 0.9 * means[1] < 0.9 * means[0]
    newcomer = model.fold_in([0, 5, 10], n=10)["item_id"].to_numpy()
    assert (newcomer % 5 == 0).all()  # items of the first group


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"gamma": -1}, "gamma is -1; expected a number of at least 0"),
        ({"inject": float("nan")}, "inject is nan"),
        ({"negatives": 0}, "negatives is 0"),
    ],
)
def test_bad_settings(settings, words):
    with pytest.raises(ConfigError, match=words):
        PD(MF(), **settings)


def test_usual_settings_are_among_those_to_try():
    settings = PD(MF()).settings()
    assert all(settings[name] in values for name, values in PD.search.items())
