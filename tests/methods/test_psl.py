"""PSL: the loss from its formula, its gradients against autograd, and the softmax as a special case."""

import numpy as np
import pytest
import torch

from icpe import MF, ConfigError, LightGCN, NeuMF, Normal
from icpe.methods import PSL, Batch
from icpe.methods._parts.score_loss import loss_on_cosines
from icpe.methods.psl import pairwise_softmax
from icpe.rng import stream
from icpe.testing.logs import skewed_log
from icpe.testing.methods import SMALL, check_method

LOG = skewed_log(users=40, items=30, pairs=400)
BATCH = Batch(torch.tensor([0, 1, 2, 1]), torch.tensor([5, 7, 5, 9]), torch.tensor([3, 5, 20, 21, 29]))
ACTIVATIONS = {
    "tanh": lambda gap: 1 + np.tanh(gap),
    "atan": lambda gap: 1 + np.arctan(gap),
    "relu": lambda gap: np.maximum(1 + gap, 0),
    "exp": np.exp,
}
TORCH = {
    "tanh": lambda gap: 1 + torch.tanh(gap),
    "atan": lambda gap: 1 + torch.atan(gap),
    "relu": lambda gap: torch.relu(1 + gap),
    "exp": torch.exp,
}


def built(method):
    method.build(LOG, stream(0, "test"))
    return method.double()


def cosines(method):
    users, items = (one.detach().numpy() for one in method.backbone.reps())
    units = [one / np.linalg.norm(one, axis=1, keepdims=True) for one in (users, items)]
    return units[0] @ units[1].T


@pytest.mark.parametrize("activation", ["tanh", "relu"])
def test_contract(activation):
    backbones = SMALL if activation == "tanh" else SMALL[:1]
    check_method(lambda backbone: PSL(backbone, activation=activation, negatives=6), backbones)


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("backbone", [MF, LightGCN])
def test_loss_by_hand(backbone, activation):
    method = built(PSL(backbone(dim=4, init_std=0.5), activation=activation, temperature=0.3, reg=0.0)).eval()
    scores, expected = cosines(method), 0.0
    for user, item in zip(BATCH.users, BATCH.items, strict=True):
        gaps = (scores[user, BATCH.negatives] - scores[user, item]) / 2
        # The positive itself has a gap of 0, for which every activation is 1.
        expected += np.log(1 + (ACTIVATIONS[activation](gaps) ** (2 / 0.3)).sum()) / 4
    assert float(method.loss(BATCH).detach()) == pytest.approx(expected, rel=1e-10)


def test_loss_of_logits_by_hand():
    method = built(PSL(NeuMF(dim=4, layers=(8, 4), init_std=1.0), temperature=0.5, reg=0.0))
    with torch.no_grad():
        users, items = method.backbone.reps()
        scores, expected = method.backbone.score(users[:, None], items).numpy(), 0.0
    for user, item in zip(BATCH.users, BATCH.items, strict=True):
        gaps = (scores[user, BATCH.negatives] - scores[user, item]) / 2
        expected += np.log(1 + ((1 + np.tanh(gaps)) ** 4).sum()) / 4
    assert float(method.loss(BATCH).detach()) == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_gradients_against_autograd(activation):
    rng = torch.Generator().manual_seed(0)
    users, items = (torch.randn((rows, 4), generator=rng, dtype=torch.float64) for rows in (5, 12))
    users.requires_grad_(), items.requires_grad_()
    found = loss_on_cosines(users, items, lambda *scores: pairwise_softmax(*scores, 0.3, activation), reg=0.2)
    matrix = torch.nn.functional.normalize(users) @ torch.nn.functional.normalize(items).T
    gaps = (matrix[:, 5:] - matrix.diagonal()[:, None]) / 2
    plain = torch.log(1 + (TORCH[activation](gaps) ** (2 / 0.3)).sum(1)).mean()
    plain = plain + 0.1 * sum(rows.square().sum(1).mean() for rows in (users, items[:5], items[5:]))
    torch.testing.assert_close(found, plain, rtol=1e-12, atol=1e-12)
    for one, other in zip(*(torch.autograd.grad(loss, (users, items)) for loss in (found, plain)), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("backbone", [MF, LightGCN, NeuMF])
def test_with_the_exponential_function_it_is_the_softmax(backbone):
    found = []
    for method in (PSL(backbone(dim=4), activation="exp", reg=0.1), Normal(backbone(dim=4), loss="softmax", reg=0.1)):
        loss = built(method).loss(BATCH, torch.Generator().manual_seed(0))
        loss.backward()
        found.append((loss.detach(), method.backbone.user_table.grad, method.backbone.item_table.grad))
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-9)


def test_a_high_scoring_negative_weighs_less_than_in_the_softmax():
    """A false negative that scores above its positive gets a smaller part of the gradient of all negatives."""
    shares = {}
    for activation in ACTIVATIONS:
        positive, negative = torch.zeros(1, dtype=torch.float64), torch.tensor([[0.8, 0.0, -0.1]], dtype=torch.float64)
        _, _, gradient = pairwise_softmax(positive, negative, 0.2, activation)
        shares[activation] = float(gradient[0, 0] / gradient.sum())
    assert all(shares[name] < shares["exp"] - 1e-3 for name in ("tanh", "atan", "relu"))


def test_activations_that_need_cosines():
    for activation in ("atan", "relu"):
        with pytest.raises(ConfigError, match=r"needs cosines.*NeuMF has none.*activation='tanh'.*mf, lightgcn"):
            PSL(NeuMF(), activation=activation)
        assert PSL(MF(), activation=activation).settings.negatives == 256
    assert PSL(NeuMF()).settings.negatives == 16
