"""PopGo: shortcut degrees, the loss from its formula, its gradients against autograd, and the softmax as a case of it."""

import numpy as np
import polars as pl
import pytest
import torch
import torch.nn.functional as F

from icpe import MF, DataError, Interactions, LightGCN, NeuMF, Normal
from icpe.methods import Batch, PopGo
from icpe.methods._parts.score_loss import loss_on_cosines
from icpe.methods.popgo import weighted_softmax
from icpe.rng import stream
from icpe.testing.logs import skewed_log
from icpe.testing.methods import SMALL, check_method
from icpe.train import Trainer, TrainSettings

LOG = skewed_log(users=40, items=30, pairs=400)
BATCH = Batch(torch.tensor([0, 1, 2, 1]), torch.tensor([5, 7, 5, 9]), torch.tensor([3, 5, 20, 21, 29]))


def built(method, log=LOG):
    method.build(log, stream(0, "test"))
    return method.double()


@pytest.mark.parametrize("backbone", SMALL, ids=["mf", "neumf", "lightgcn"])
def test_contract(backbone):
    check_method(lambda one: PopGo(one, negatives=6, bias_epochs=1), [backbone])


def degree(method, user, item):
    """σ(P·Q) of the rows that belong to the counts of a user and an item."""
    places = [sorted(set(counts.tolist())).index(counts[one]) for counts, one in ((LOG.user_counts, user), (LOG.item_counts, item))]  # fmt: skip
    product = float(method.activity[places[0]] @ method.popularity[places[1]])
    return 1 / (1 + np.exp(-product))


@pytest.mark.parametrize("backbone", [MF, LightGCN, NeuMF])
def test_loss_by_hand(backbone):
    method = built(PopGo(backbone(dim=4, init_std=0.5), temperature=0.3, reg=0.0)).eval()
    with torch.no_grad():
        users, items = method.backbone.reps()
        cosines = F.normalize(users) @ F.normalize(items).T
        scores = method.backbone.score(users[:, None], items) if backbone is NeuMF else cosines
    expected = 0.0
    for user, item in zip(BATCH.users.tolist(), BATCH.items.tolist(), strict=True):
        codes = [item, *BATCH.negatives.tolist()]
        logits = np.array([float(scores[user, one]) * degree(method, user, one) / 0.3 for one in codes])
        expected += (np.log(np.exp(logits).sum()) - logits[0]) / 4
    assert float(method.loss(BATCH).detach()) == pytest.approx(expected, rel=1e-6)


def test_gradients_against_autograd():
    rng = torch.Generator().manual_seed(0)
    users, items = (torch.randn((rows, 4), generator=rng, dtype=torch.float64) for rows in (5, 12))
    users.requires_grad_(), items.requires_grad_()
    own, others = (torch.rand(shape, generator=rng, dtype=torch.float64) for shape in (5, (5, 7)))
    found = loss_on_cosines(users, items, lambda *scores: weighted_softmax(*scores, own, others, 0.3))
    matrix = F.normalize(users) @ F.normalize(items).T
    logits = torch.cat([(own * matrix.diagonal())[:, None], others * matrix[:, 5:]], 1) / 0.3
    plain = F.cross_entropy(logits, torch.zeros(5, dtype=torch.int64))
    torch.testing.assert_close(found, plain, rtol=1e-12, atol=1e-12)
    for one, other in zip(*(torch.autograd.grad(loss, (users, items)) for loss in (found, plain)), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-11)


def test_with_equal_degrees_it_is_the_softmax():
    """A popularity model of zeros gives every pair the degree ½, which doubles the temperature."""
    method = built(PopGo(MF(dim=4), temperature=0.1, reg=0.0))
    method.activity.zero_()
    plain = built(Normal(MF(dim=4), loss="softmax", temperature=0.2, reg=0.0))
    torch.testing.assert_close(method.loss(BATCH).detach(), plain.loss(BATCH).detach())


def test_the_shortcut_is_learnt_and_left_out_of_the_ranking():
    log = skewed_log()
    method = PopGo(MF(dim=64), bias_epochs=20)
    Trainer(method, log, 0, TrainSettings(epochs=1, batch_size=256)).run()
    shown = method.diagnostics()
    assert shown["head_shortcut"] > shown["niche_shortcut"] + 0.02
    users, items = (F.normalize(one.detach()).numpy() for one in method.backbone.reps())
    found = method.scores().block(np.arange(5), 0, len(items))
    np.testing.assert_allclose(found, users[:5] @ items.T, rtol=1e-5, atol=1e-6)


def test_the_shortcut_stays_as_it_was_before_the_first_step():
    method = PopGo(MF(dim=4), bias_epochs=2)
    trainer = Trainer(method, LOG, 0, TrainSettings(epochs=2, batch_size=64))
    start = method.activity.clone(), method.popularity.clone()
    method.refresh(0, 0)
    learnt = method.activity.clone()
    assert not torch.equal(learnt, start[0])
    method.activity.copy_(start[0])
    method.popularity.copy_(start[1])
    trainer.run()
    assert torch.equal(method.activity, learnt)


def test_a_user_of_all_items_is_refused():
    log = Interactions.read(pl.DataFrame({"user_id": [0, 0, 1], "item_id": [0, 1, 0]}))
    with pytest.raises(DataError, match="user 0 has used all 2 items"):
        built(PopGo(MF()), log)
