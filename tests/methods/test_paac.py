"""PAAC: its three parts from their formulas, gradients against autograd, and who is paired with whom."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from icpe import MF, LightGCN, NeuMF
from icpe.methods import PAAC, Batch
from icpe.methods._parts.contrast import contrast, noisy_view
from icpe.methods._parts.other_half import OtherHalf
from icpe.methods.paac import alignment
from icpe.rng import stream
from icpe.testing.logs import skewed_log
from icpe.testing.methods import check_method
from icpe.train import Trainer, TrainSettings

LOG = skewed_log(users=40, items=30, pairs=400)
# User 1 and item 5 occur twice. The columns are a negative and an item of the other half of the user's items.
BATCH = Batch(torch.tensor([0, 1, 2, 1]), torch.tensor([5, 7, 5, 9]), torch.tensor([[3, 8], [20, 1], [21, 2], [29, 7]]))


def built(method):
    method.build(LOG, stream(0, "test"))
    return method.double()


def test_contract():
    check_method(lambda backbone: PAAC(backbone, alignment_weight=0.5, contrast_weight=0.5))


# Pairs of the same user


def test_partners_are_uniform_in_the_other_half_by_popularity():
    half, rows = OtherHalf(LOG), np.repeat(np.arange(len(LOG)), 400)
    partners = half.sample(rows, np.random.default_rng(0)).reshape(len(LOG), 400)
    for row in range(0, len(LOG), 7):
        own = LOG.item[LOG.user == LOG.user[row]]
        ordered = own[np.lexsort((own, LOG.item_counts[own]))]
        less, more = np.split(ordered, [len(ordered) // 2])
        other = more if LOG.item[row] in less else less
        found, counts = np.unique(partners[row], return_counts=True)
        assert set(found) == set(other)
        assert counts.min() > 0.4 * 400 / len(other)


def test_a_user_with_one_item_is_paired_with_that_item():
    log = LOG.keep(np.arange(len(LOG)) == 17)
    assert OtherHalf(log).sample(np.zeros(3, np.int64), np.random.default_rng(0)).tolist() == [int(log.item[0])] * 3


def test_alignment_by_hand():
    one, two = torch.tensor([[3.0, 4.0], [1.0, 0.0]]), torch.tensor([[0.0, 2.0], [5.0, 0.0]])
    # The unit vectors (0.6, 0.8) and (0, 1) have the squared distance 0.36 + 0.04; the second two are the same.
    assert float(alignment(one, two)) == pytest.approx(0.2)


# Contrast


def contrast_by_hand(one, two, weight, temperature, border, across):
    value = 0.0
    for row in range(len(one)):
        terms = np.exp(one[row] @ two.T / temperature)
        other = (np.arange(len(one)) < border) != (row < border)
        value -= weight[row] * np.log(terms[row] / np.where(other, across * terms, terms).sum())
    return value


@pytest.mark.parametrize(("border", "across"), [(0, 1.0), (2, 0.3), (2, 0.0), (5, 0.3), (0, 0.3)])
def test_contrast_by_hand_and_its_gradient(border, across):
    rng = torch.Generator().manual_seed(0)
    one, two = (F.normalize(torch.randn((5, 3), generator=rng, dtype=torch.float64)) for _ in range(2))
    one.requires_grad_(), two.requires_grad_()
    weight = torch.rand(5, generator=rng, dtype=torch.float64)
    found = contrast(one, two, weight, 0.3, border, across)
    expected = contrast_by_hand(one.detach().numpy(), two.detach().numpy(), weight.numpy(), 0.3, border, across)
    assert float(found.detach()) == pytest.approx(expected, rel=1e-12)
    below = torch.arange(5) < border
    factors = 1 + (across - 1) * (below[:, None] != below).double()
    terms = (one @ two.T / 0.3).exp()
    plain = -(weight * (terms.diagonal() / (factors * terms).sum(1)).log()).sum()
    for a, b in zip(*(torch.autograd.grad(loss, (one, two)) for loss in (found, plain)), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-11)


def test_views_are_unit_vectors_in_the_same_orthant():
    units = F.normalize(torch.randn((50, 4), generator=torch.Generator().manual_seed(0)))
    view = noisy_view(units, 0.2, torch.Generator().manual_seed(1))
    torch.testing.assert_close(view.norm(dim=1), torch.ones(50))
    assert torch.equal(view.sign(), units.sign())
    assert not torch.allclose(view, units, atol=0.01)
    assert (view - units).norm(dim=1).max() < 0.2
    assert torch.equal(view, noisy_view(units, 0.2, torch.Generator().manual_seed(1)))


# The loss of a batch


@pytest.mark.parametrize("backbone", [MF, LightGCN, NeuMF])
def test_loss_by_hand(backbone):
    """Almost without noise, so that both views are the unit vectors themselves."""
    settings = {"alignment_weight": 0.4, "contrast_weight": 0.7, "popular_weight": 0.3, "other_weight": 0.6}
    method = built(PAAC(backbone(dim=4, init_std=0.5), temperature=0.5, noise=1e-9, reg=0.1, **settings)).eval()
    with torch.no_grad():
        users, items = method.backbone.reps()
        scores = method.backbone.score(users[:, None], items).numpy()
        ego = [method.backbone.ego_users(BATCH.users), method.backbone.ego_items(BATCH.items)]
        ego.append(method.backbone.ego_items(BATCH.negatives[:, 0]))
        user, item = (F.normalize(one).numpy() for one in (users, items))
    own, other = scores[BATCH.users, BATCH.items], scores[BATCH.users, BATCH.negatives[:, 0]]
    expected = np.log1p(np.exp(other - own)).mean() + 0.05 * sum(float(one.square().sum(1).mean()) for one in ego)
    gaps = item[BATCH.items] - item[BATCH.negatives[:, 1]]
    expected += 0.4 * np.square(gaps).sum(1).mean()
    expected += 0.7 * contrast_by_hand(user[[0, 1, 2]], user[[0, 1, 2]], np.full(3, 1 / 3), 0.5, 0, 1.0)
    positives = np.array([5, 7, 9])
    positives = positives[np.argsort(LOG.item_counts[positives], kind="stable")]  # the first is the unpopular half
    weights = np.array([0.7, 0.15, 0.15])
    expected += 0.7 * contrast_by_hand(item[positives], item[positives], weights, 0.5, 1, 0.6)
    assert float(method.loss(BATCH).detach()) == pytest.approx(expected, rel=1e-6)


def mean_gap(method):
    """Mean squared distance between unit vectors of popular and unpopular items of the same user."""
    rows = np.arange(len(LOG))
    partners = OtherHalf(LOG).sample(rows, np.random.default_rng(0))
    with torch.no_grad():
        _, items = method.backbone.reps()
        return float(alignment(items[torch.from_numpy(LOG.item.astype(np.int64))], items[torch.from_numpy(partners)]))


def test_alignment_brings_the_halves_of_a_user_together():
    gaps = []
    for weight in (0.0, 1.0):
        method = PAAC(MF(dim=8), alignment_weight=weight)
        Trainer(method, LOG, 0, TrainSettings(epochs=20, batch_size=64, lr=0.01)).run()
        gaps.append(mean_gap(method))
    assert gaps[1] < 0.7 * gaps[0]


def test_without_both_parts_it_is_bpr():
    method = built(PAAC(MF(dim=4, init_std=0.5), alignment_weight=0.0, contrast_weight=0.0, reg=0.0))
    with torch.no_grad():
        users, items = method.backbone.reps()
        scores = users @ items.T
    gaps = scores[BATCH.users, BATCH.negatives[:, 0]] - scores[BATCH.users, BATCH.items]
    torch.testing.assert_close(method.loss(BATCH).detach(), F.softplus(gaps).mean())
