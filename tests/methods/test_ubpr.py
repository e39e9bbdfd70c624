"""UBPR and RelMF: sampling with labels, losses computed from their formulas, and their expectation over exposure."""

import numpy as np
import polars as pl
import pytest
import torch

from icpe import MF, ConfigError, Interactions, NeuMF, Normal
from icpe.methods import UBPR, Batch, RelMF
from icpe.metrics import evaluate_lists
from icpe.ranking import top_n
from icpe.rng import stream
from icpe.testing.logs import skewed_log
from icpe.testing.methods import SMALL, block_log, check_method
from icpe.train.sampling import Sampler

LOG = skewed_log(users=40, items=30, pairs=400)
USED = set(zip(LOG.user.tolist(), LOG.item.tolist(), strict=True))


class Own(MF):
    """A user-defined backbone whose scores are not inner products and whose tables are not trained by row."""

    name = "own"
    inner_product = False

    def row_tables(self):
        return [], []


BACKBONES = [MF, Own, lambda **settings: NeuMF(layers=(8, 4), **settings)]


def built(method, log=LOG):
    method.build(log, stream(0, "test"))
    return method


def sampled_by(method, size=64, log=LOG):
    return next(Sampler(log, method.negatives, size, seed=0, resample=method.sample).epoch(0))


def batch_of(method, size=64):
    return Batch.of(sampled_by(method, size))


def scores_of(method, batch):
    """Scores of positives [batch] and of sampled items [batch, K] as arrays."""
    with torch.no_grad():
        users, items = method.backbone.reps()
        table = method.backbone.score(users[:, None], items[None]).numpy()
    user = batch.users.numpy()
    return table[user, batch.items.numpy()], table[user[:, None], batch.negatives.numpy()]


def exposure_by_hand(power):
    most = max(LOG.item_counts)
    return np.array([(max(count, 1) / most) ** power for count in LOG.item_counts])


def sigma(x):
    return 1 / (1 + np.exp(-x))


@pytest.mark.parametrize(
    ("make", "backbones"),
    [
        (UBPR, SMALL[:1]),
        (
            lambda backbone: UBPR(backbone, negatives=2, propensity_power=0.8, negative_loss_limit=0.05),
            [*SMALL, lambda: Own(dim=3)],
        ),
        (RelMF, [*SMALL, lambda: Own(dim=3)]),
        (lambda backbone: RelMF(backbone, loss="log", negatives=2), SMALL[:1]),
    ],
    ids=["ubpr", "ubpr-limit", "relmf", "relmf-log"],
)
def test_contract(make, backbones):
    check_method(make, backbones)


@pytest.mark.parametrize("kind", [UBPR, RelMF])
def test_items_are_sampled_from_all_items_and_labelled(kind):
    method = built(kind(MF(), negatives=200))
    sampled = sampled_by(method, len(LOG))
    pairs = np.stack(np.broadcast_arrays(sampled.users[:, None], sampled.negatives), -1).reshape(-1, 2)
    expected = [tuple(pair) in USED for pair in pairs.tolist()]
    assert np.array_equal(sampled.labels.ravel(), expected)
    shares = np.bincount(sampled.negatives.ravel(), minlength=30) / sampled.negatives.size
    assert np.abs(shares * 30 - 1).max() < 0.1  # about seven standard deviations
    share_used = (LOG.user_counts[LOG.user] / 30).mean()
    assert sampled.labels.mean() == pytest.approx(share_used, rel=0.05)


def test_a_user_may_have_used_all_items():
    ids = pl.Series(range(2))
    log = Interactions.from_codes(ids, ids, np.array([0, 0, 1], np.int32), np.array([0, 1, 1], np.int32))
    for kind in (UBPR, RelMF):
        kind(MF(dim=2)).fit(log, epochs=2)


@pytest.mark.parametrize("backbone", BACKBONES)
@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("limit", [0.0, 0.7, 100.0])
def test_ubpr_by_hand(backbone, count, limit):
    ends = {"negative_loss_limit": limit, "reg": 0.02}
    method = built(UBPR(backbone(dim=4, init_std=0.7), negatives=count, propensity_power=0.6, **ends)).double()
    batch = batch_of(method, 200)
    assert batch.labels.any()
    theta = exposure_by_hand(0.6)
    positive, negative = scores_of(method, batch)
    used = np.vectorize(lambda user, item: (user, item) in USED)(batch.users.numpy()[:, None], batch.negatives.numpy())
    factor = (1 / theta[batch.items.numpy()])[:, None] * (1 - used / theta[batch.negatives.numpy()])
    each = factor * np.log1p(np.exp(-(positive[:, None] - negative)))
    if limit == 0.7:
        assert 0 < (each < -limit).mean() < (each < 0).mean()  # some pairs are beyond the limit, some are not
    expected = np.maximum(-limit, each).mean() + method.penalty(batch).item()
    assert method.loss(batch).item() == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("limit", [0.0, 0.7])
def test_ubpr_has_the_gradients_of_its_formula(count, limit):
    one, two = (
        built(UBPR(kind(dim=4, init_std=0.7), negatives=count, negative_loss_limit=limit, reg=0.1)).double()
        for kind in (MF, Own)
    )
    for method in (one, two):
        method.loss(batch_of(method, 200)).backward()
    for name, parameter in one.named_parameters():
        torch.testing.assert_close(parameter.grad, dict(two.named_parameters())[name].grad)


def test_ubpr_gradients_by_differences():
    method = built(UBPR(MF(dim=3, init_std=0.7), negatives=2, negative_loss_limit=0.7, reg=0.1)).double()
    batch, table = batch_of(method, 100), method.backbone.user_table
    method.loss(batch).backward()
    step = torch.zeros_like(table)
    for place in [(0, 0), (7, 2), (33, 1)]:
        step.zero_()[place] = 1e-6
        with torch.no_grad():
            values = []
            for sign in (1, -1):
                table += sign * step
                values.append(method.loss(batch).item())
                table -= sign * step
        assert table.grad[place].item() == pytest.approx((values[0] - values[1]) / 2e-6, rel=1e-5, abs=1e-9)


@pytest.mark.parametrize("backbone", BACKBONES)
@pytest.mark.parametrize("limit", [0.0, 0.3])
def test_ubpr_with_full_exposure_and_unused_items_is_bpr(backbone, limit):
    ours = built(UBPR(backbone(dim=4, init_std=0.7), propensity_power=0.0, negatives=2, negative_loss_limit=limit))
    plain = built(Normal(backbone(dim=4, init_std=0.7), loss="bpr", negatives=2))
    batch = Batch.of(next(Sampler(LOG, plain.negatives, 64, seed=0).epoch(0)))
    labelled = Batch(batch.users, batch.items, batch.negatives, torch.zeros_like(batch.negatives))
    losses = ours.loss(labelled), plain.loss(batch)
    torch.testing.assert_close(*losses, rtol=1e-6, atol=0)
    for loss in losses:
        loss.backward()
    for name, parameter in ours.named_parameters():
        torch.testing.assert_close(parameter.grad, dict(plain.named_parameters())[name].grad)


@pytest.mark.parametrize("backbone", BACKBONES)
def test_ubpr_pairs_of_used_items_have_no_gradient_with_limit_zero(backbone):
    method = built(UBPR(backbone(dim=4, init_std=0.7), negative_loss_limit=0.0, reg=0.0))
    users, items, others = (torch.tensor(column) for column in zip(*pairs_of_used_items(), strict=True))
    method.loss(Batch(users, items, others[:, None], torch.ones_like(others)[:, None])).backward()
    for name, parameter in method.named_parameters():
        assert not parameter.grad.any(), name
    method = built(UBPR(backbone(dim=4, init_std=0.7), negative_loss_limit=1000.0, reg=0.0))
    method.loss(Batch(users, items, others[:, None], torch.ones_like(others)[:, None])).backward()
    assert any(parameter.grad.any() for parameter in method.parameters())


def pairs_of_used_items():
    return [(user, one, two) for user, one in sorted(USED) for who, two in sorted(USED) if who == user and one != two]


def test_expectation_of_ubpr_is_pairwise_relevance():
    """Averaged over the exposure of two items with probabilities θ, only relevant over irrelevant remains."""
    theta = exposure_by_hand(0.5)
    method = built(UBPR(MF(dim=4, init_std=0.7), propensity_power=0.5, negative_loss_limit=1e6, reg=0.0)).double()
    for second_is_relevant in (True, False):
        total = 0.0
        for seen_one, seen_two in [(1, 0), (1, 1)]:  # a first item that is not exposed is not a positive
            used = seen_two and second_is_relevant
            chance = theta[4] * (theta[9] if seen_two else 1 - theta[9])
            batch = Batch(*(torch.tensor([code]) for code in (2, 4)), torch.tensor([[9]]), torch.tensor([[int(used)]]))
            total += seen_one * chance * method.loss(batch).item()
        positive, negative = scores_of(method, batch)
        ideal = 0.0 if second_is_relevant else np.log1p(np.exp(negative - positive[:, None])).item()
        assert total == pytest.approx(ideal, abs=1e-6)


@pytest.mark.parametrize("backbone", BACKBONES)
@pytest.mark.parametrize("loss", ["squared", "log"])
@pytest.mark.parametrize("count", [1, 3])
def test_relmf_by_hand(backbone, loss, count):
    exposure = {"propensity_power": 0.9, "min_propensity": 0.2}
    method = built(RelMF(backbone(dim=4, init_std=1.0), loss=loss, negatives=count, reg=0.02, **exposure)).double()
    batch = batch_of(method, 200)
    theta = np.maximum(exposure_by_hand(0.9), 0.2)
    assert (exposure_by_hand(0.9) < 0.2).any()
    assert batch.labels.any()

    def mean_loss(scores, ratio):
        if loss == "squared":
            return (ratio * (1 - sigma(scores)) ** 2 + (1 - ratio) * sigma(scores) ** 2).mean()
        each = -ratio * np.log(sigma(scores)) - (1 - ratio) * np.log(1 - sigma(scores))
        return np.maximum(0, each).mean()

    positive, negative = scores_of(method, batch)
    used = np.vectorize(lambda user, item: (user, item) in USED)(batch.users.numpy()[:, None], batch.negatives.numpy())
    expected = mean_loss(positive, 1 / theta[batch.items.numpy()])
    expected += mean_loss(negative, used / theta[batch.negatives.numpy()]) + method.penalty(batch).item()
    assert method.loss(batch).item() == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("exposure", [{"propensity_power": 0.0}, {"propensity_power": 1.0, "min_propensity": 1.0}])
def test_relmf_with_full_exposure_is_the_squared_loss(exposure):
    method = built(RelMF(MF(dim=4, init_std=1.0), reg=0.0, **exposure)).double()
    batch = batch_of(method)
    positive, negative = scores_of(method, batch)
    targets = batch.labels.numpy()
    expected = ((1 - sigma(positive)) ** 2).mean() + ((targets - sigma(negative)) ** 2).mean()
    assert method.loss(batch).item() == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("loss", ["squared", "log"])
def test_expectation_of_relmf_is_relevance(loss):
    """θ·(loss if seen) + (1 − θ)·(loss if not) is δ₁ of a relevant item, where the bound at 0 is not active."""
    method = built(RelMF(MF(dim=4, init_std=0.3), loss=loss, propensity_power=0.5, reg=0.0)).double()
    users, items, others = torch.tensor([2]), torch.tensor([4]), torch.tensor([[9]])
    unseen, seen = (method.loss(Batch(users, items, others, torch.tensor([[label]]))).item() for label in (0, 1))
    score = scores_of(method, Batch(users, items, others))[1].item()
    gap = 1 - 2 * sigma(score) if loss == "squared" else -score  # δ₁ − δ₀
    assert exposure_by_hand(0.5)[9] * (seen - unseen) == pytest.approx(gap, abs=1e-6)


def test_relmf_losses_are_bounded_below():
    rare = int(np.argmin(LOG.item_counts))
    for loss, bound in (("squared", 1 - 1 / max(exposure_by_hand(1.0)[rare], 0.01)), ("log", 0.0)):
        method = built(RelMF(MF(dim=1), loss=loss, propensity_power=1.0, reg=0.0)).double()
        with torch.no_grad():
            method.backbone.user_table.fill_(30.0)
            method.backbone.item_table.fill_(1.0)
            method.backbone.item_table[0] = -1.0
        batch = Batch(torch.tensor([0]), torch.tensor([rare]), torch.tensor([[0]]), torch.tensor([[0]]))
        value = method.loss(batch)
        assert value.item() == pytest.approx(bound, abs=1e-9)
        value.backward()
        assert torch.isfinite(method.backbone.item_table.grad).all()


@pytest.mark.parametrize(
    "make", [UBPR, RelMF, lambda backbone: RelMF(backbone, loss="log")], ids=["ubpr", "relmf", "log"]
)
def test_groups_are_learnt(make):
    log = block_log()
    model = make(MF(dim=16)).fit(log, epochs=40, batch_size=128, lr=0.02)
    everybody = np.arange(len(log.users), dtype=np.int32)
    lists = top_n(model.scores, everybody, 20)
    assert evaluate_lists(lists, log, log, n=[20]).values["ndcg@20"] > 0.85
    newcomer = model.fold_in([0, 1, 2], n=5)["item_id"].to_list()
    assert set(newcomer) == {3, 4, 5, 6, 7}  # the other items of the first group


@pytest.mark.parametrize(
    ("kind", "settings", "words"),
    [
        (UBPR, {"propensity_power": -0.1}, "propensity_power is -0.1; expected a number of at least 0"),
        (UBPR, {"negative_loss_limit": -1}, "negative_loss_limit is -1; expected a number of at least 0"),
        (UBPR, {"negatives": 0}, "negatives is 0"),
        (UBPR, {"loss": "bce"}, "no setting 'loss'"),
        (RelMF, {"loss": "bce"}, "loss is 'bce'; expected one of squared, log"),
        (RelMF, {"min_propensity": 2}, "min_propensity is 2; expected a number of at least 0 and at most 1"),
        (RelMF, {"propensity_power": None}, "propensity_power is None"),
        (RelMF, {"negatives": 0.5}, "negatives is 0.5"),
    ],
)
def test_bad_settings(kind, settings, words):
    with pytest.raises(ConfigError, match=words):
        kind(MF(), **settings)


@pytest.mark.parametrize("kind", [UBPR, RelMF])
def test_defaults_are_in_the_search_space(kind):
    settings = kind(MF()).settings.as_dict()
    assert all(settings[name] in values for name, values in kind.Settings.search_space().items())
