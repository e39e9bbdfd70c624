"""PopDCL: the corrected scores from their formulas, gradients against autograd, and the softmax as a special case."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from icpe import MF, ConfigError, LightGCN, NeuMF
from icpe.methods import Batch, PopDCL
from icpe.methods._parts.score_loss import loss_on_cosines
from icpe.methods.popdcl import corrected_softmax
from icpe.rng import stream
from icpe.testing.logs import skewed_log
from icpe.testing.methods import SMALL, check_method

LOG = skewed_log(users=40, items=30, pairs=400)
INNER = (SMALL[0], SMALL[2])
# Item 5 occurs twice and is a negative of the other row.
BATCH = Batch(torch.tensor([0, 1, 2, 1]), torch.tensor([5, 7, 5, 9]), torch.empty(0, dtype=torch.int64))


def built(method):
    method.build(LOG, stream(0, "test"))
    return method.double()


def test_contract():
    check_method(PopDCL, INNER)


@pytest.mark.parametrize("strengths", [(1.0, 1.0), (0.5, 0.1), (0.0, 1.0), (1.0, 0.0)])
@pytest.mark.parametrize("backbone", [MF, LightGCN])
def test_loss_by_hand(backbone, strengths):
    settings = dict(zip(("positive_strength", "negative_strength"), strengths, strict=True))
    method = built(PopDCL(backbone(dim=4, init_std=0.5), temperature=0.3, reg=0.0, **settings)).eval()
    with torch.no_grad():
        users, items = (F.normalize(one).numpy() for one in method.backbone.reps())
    scores, expected = users @ items.T, 0.0
    codes = BATCH.items.numpy()
    for row, user in enumerate(BATCH.users.tolist()):
        owned = LOG.item_counts[LOG.item[LOG.user == user]].sum()
        chance = (owned - 1) / (len(LOG) - 1)
        negatives = scores[user, np.delete(codes, row)]
        part = LOG.item_counts[codes[row]] / owned
        positive = scores[user, codes[row]]
        lowered = negatives - strengths[1] * chance / (1 - chance) * np.exp((positive - negatives) / 0.3)
        positive = positive - strengths[0] / (1 + np.exp(-negatives.mean() * part))
        expected += np.log1p(np.exp((lowered - positive) / 0.3).sum()) / 4
    assert float(method.loss(BATCH).detach()) == pytest.approx(expected, rel=1e-6)


def plain(users, items, part, strength, odds, temperature):
    matrix = F.normalize(users) @ F.normalize(items).T
    positive, losses = matrix.diagonal(), []
    for row in range(len(users)):
        negatives = torch.cat([matrix[row, :row], matrix[row, row + 1 :]])
        own = positive[row] - strength * torch.sigmoid(negatives.mean() * part[row])
        lowered = negatives - odds[row] * ((positive[row] - negatives) / temperature).exp()
        losses.append(torch.logsumexp(torch.cat([own[None], lowered]) / temperature, 0) - own / temperature)
    return torch.stack(losses).mean()


def test_gradients_against_autograd():
    rng = torch.Generator().manual_seed(0)
    users, items = (torch.randn((6, 4), generator=rng, dtype=torch.float64).requires_grad_() for _ in range(2))
    part, odds = (torch.rand(6, generator=rng, dtype=torch.float64) * top for top in (1.0, 0.2))
    found = loss_on_cosines(
        users, items, lambda *scores: corrected_softmax(*scores, part, 0.8, odds, 0.3), in_batch=True
    )
    expected = plain(users, items, part, 0.8, odds, 0.3)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    for one, other in zip(*(torch.autograd.grad(loss, (users, items)) for loss in (found, expected)), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-11)


def test_without_corrections_it_is_the_softmax_of_the_batch():
    method = built(PopDCL(MF(dim=4), temperature=0.3, positive_strength=0.0, negative_strength=0.0, reg=0.0))
    users, items = (F.normalize(one.detach()) for one in method.backbone.reps())
    expected = F.cross_entropy(users[BATCH.users] @ items[BATCH.items].T / 0.3, torch.arange(4))
    torch.testing.assert_close(method.loss(BATCH).detach(), expected)


def test_a_negative_far_below_the_positive_has_no_weight_even_at_low_temperatures():
    scores = torch.tensor([[1.0, -1.0], [0.5, 0.6]])
    loss, positive, gradient = corrected_softmax(
        scores.diagonal().clone(), scores, torch.ones(2), 1.0, torch.ones(2), 0.01
    )
    assert np.isfinite(loss)
    assert positive.isfinite().all()
    assert gradient.isfinite().all()
    assert gradient[0, 1] == 0


def test_popular_positives_are_corrected_more():
    """Where the negatives score above 0, the correction grows with the popularity of the positive."""
    pulls = []
    for part in (0.01, 0.9):
        scores = torch.full((3, 3), 0.4)
        loss, _, _ = corrected_softmax(
            scores.diagonal().clone(), scores, torch.full((3,), part), 1.0, torch.zeros(3), 0.2
        )
        pulls.append(loss)
    assert pulls[1] > pulls[0] + 0.1


def test_it_needs_inner_products():
    with pytest.raises(ConfigError, match=r"NeuMF scores pairs one by one, but popdcl needs .*\(mf, lightgcn\)"):
        PopDCL(NeuMF()).build(LOG, np.random.default_rng(0))
