"""BSL: the loss from its formula, its gradients against autograd, and the softmax as a special case."""

import numpy as np
import pytest
import torch

from icpe import MF, LightGCN, NeuMF, Normal
from icpe.methods import BSL, Batch
from icpe.methods._parts.score_loss import loss_on_cosines
from icpe.methods.bsl import bilateral_softmax
from icpe.rng import stream
from icpe.testing.logs import skewed_log
from icpe.testing.methods import check_method

LOG = skewed_log(users=40, items=30, pairs=400)
NEGATIVES = torch.tensor([3, 5, 20, 21, 29])
REPEATED = Batch(torch.tensor([0, 1, 2, 1, 1]), torch.tensor([5, 7, 5, 9, 2]), NEGATIVES)
DISTINCT = Batch(torch.tensor([0, 1, 2, 3]), torch.tensor([5, 7, 5, 9]), NEGATIVES)


def built(method):
    method.build(LOG, stream(0, "test"))
    return method.double()


def test_contract():
    check_method(lambda backbone: BSL(backbone, negatives=6, positive_temperature=0.5, negative_weight=1.1))


def all_scores(method):
    """Cosines, or the logits of NeuMF, [users, items]."""
    with torch.no_grad():
        users, items = method.backbone.reps()
        if isinstance(method.backbone, NeuMF):
            return method.backbone.score(users[:, None], items).numpy()
        return (torch.nn.functional.normalize(users) @ torch.nn.functional.normalize(items).T).numpy()


@pytest.mark.parametrize("backbone", [MF, LightGCN, NeuMF])
def test_loss_by_hand(backbone):
    settings = {"temperature": 0.3, "positive_temperature": 0.5, "negative_weight": 1.2, "reg": 0.0}
    method = built(BSL(backbone(dim=4, init_std=0.5), **settings)).eval()
    scores, expected = all_scores(method), 0.0
    for user, item in zip(REPEATED.users, REPEATED.items, strict=True):
        own = scores[user, REPEATED.items[REPEATED.users == user]]
        positives = 0.5 / 0.3 * np.log(np.exp(own / 0.5).mean())
        negatives = np.log(np.exp(scores[user, item] / 0.3) + np.exp(scores[user, NEGATIVES] / 0.3).sum())
        expected += (1.2 * negatives - positives) / 5
    assert float(method.loss(REPEATED).detach()) == pytest.approx(expected, rel=1e-10)


def test_gradients_against_autograd():
    rng = torch.Generator().manual_seed(0)
    users, items = (torch.randn((rows, 4), generator=rng, dtype=torch.float64) for rows in (5, 12))
    users.requires_grad_(), items.requires_grad_()
    group = torch.tensor([0, 1, 0, 0, 2])
    found = loss_on_cosines(users, items, lambda *scores: bilateral_softmax(*scores, group, (0.4, 0.3), 1.2))
    matrix = torch.nn.functional.normalize(users) @ torch.nn.functional.normalize(items).T
    own, negative = matrix.diagonal(), matrix[:, 5:]
    means = torch.stack([(own[group == one] / 0.4).exp().mean().log() for one in group])
    total = torch.logsumexp(torch.cat([own[:, None], negative], 1) / 0.3, 1)
    plain = (1.2 * total - 0.4 / 0.3 * means).mean()
    torch.testing.assert_close(found, plain, rtol=1e-12, atol=1e-12)
    for one, other in zip(*(torch.autograd.grad(loss, (users, items)) for loss in (found, plain)), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-11)


def same_as_softmax(backbone, batch, **settings):
    found = []
    for method in (BSL(backbone(dim=4), reg=0.1, **settings), Normal(backbone(dim=4), loss="softmax", reg=0.1)):
        loss = built(method).loss(batch, torch.Generator().manual_seed(0))
        loss.backward()
        found.append((loss.detach(), method.backbone.user_table.grad, method.backbone.item_table.grad))
    return all(torch.allclose(*pair, rtol=1e-4, atol=1e-6) for pair in zip(*found, strict=True))


@pytest.mark.parametrize("backbone", [MF, LightGCN, NeuMF])
def test_where_it_is_the_softmax(backbone):
    assert same_as_softmax(backbone, DISTINCT)
    assert same_as_softmax(backbone, DISTINCT, positive_temperature=0.7)  # a mean of one positive
    assert same_as_softmax(backbone, REPEATED, positive_temperature=1e6)  # all positives have the same weight
    assert not same_as_softmax(backbone, REPEATED)
    assert not same_as_softmax(backbone, DISTINCT, negative_weight=1.1)


def test_a_positive_that_fits_badly_weighs_less():
    positive, negative = torch.tensor([0.8, -0.6]), torch.zeros(2, 4)
    group = torch.zeros(2, dtype=torch.int64)
    pulls = {}
    for temperature in (0.2, 1e6):
        _, gradient, _ = bilateral_softmax(positive, negative.clone(), group, (temperature, 0.2), 1.0)
        pulls[temperature] = -gradient
    assert pulls[0.2][1] < 0.05 * pulls[1e6][1]


def test_the_temperature_of_the_positives_follows_that_of_the_negatives():
    assert BSL(MF(), temperature=0.3).settings.positive_temperature == 0.3
    assert BSL(MF(), temperature=0.3, positive_temperature=0.1).settings.positive_temperature == 0.1
