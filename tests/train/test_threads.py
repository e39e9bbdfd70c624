"""Trainings on 1, 2 and 4 threads have the same bits: parameters, states of the optimiser and losses."""

import numpy as np
import pytest
import torch

from icpe import ICPE, MF, LightGCN, NeuMF, Normal, threads
from icpe.methods import InBatch
from icpe.testing import skewed_log
from icpe.train import Trainer, TrainSettings
from icpe.train.batch import Batch

METHODS = {
    "mf, bce": lambda: Normal(MF(dim=8)),
    "mf, bpr": lambda: Normal(MF(dim=8), loss="bpr"),
    "mf, softmax": lambda: Normal(MF(dim=8), loss="softmax", negatives=40),
    "mf, in-batch": lambda: InBatch(MF(dim=8)),
    "mf, icpe": lambda: ICPE(MF(dim=8)),
    "mf, icpe, groups": lambda: ICPE(MF(dim=8), peers=20),
    "mf, icpe, batch negatives": lambda: ICPE(MF(dim=8), peers=0, batch_negatives=True),
    "mf, icpe, bce": lambda: ICPE(MF(dim=8), loss="bce"),
    "neumf, bce": lambda: Normal(NeuMF(dim=4, layers=(8, 4))),
    "neumf, bpr": lambda: Normal(NeuMF(dim=4, layers=(8, 4)), loss="bpr", negatives=3),
    "neumf, softmax": lambda: Normal(NeuMF(dim=4, layers=(8, 4)), loss="softmax", negatives=10),
    "neumf, icpe": lambda: ICPE(NeuMF(dim=4, layers=(8, 4)), loss="bce"),
    "lightgcn, bce": lambda: Normal(LightGCN(dim=8)),
    "lightgcn, icpe": lambda: ICPE(LightGCN(dim=8, layers=2)),
}


@pytest.fixture(scope="module")
def log():
    return skewed_log(users=300, items=120, pairs=3000)


def trained(method, log, number):
    """Return everything that a training of two epochs leaves behind, as bytes, and its losses."""
    losses = []
    with threads.use(number):
        trainer = Trainer(method, log, 0, TrainSettings(epochs=2, batch_size=200))
        trainer.run(on_step=lambda position: losses.append(position.loss_sum))
    return {name: tensor.numpy().tobytes() for name, tensor in trainer.tensors().items()}, losses


@pytest.mark.parametrize("name", METHODS)
def test_trainings_have_the_same_bits(name, log, monkeypatch):
    monkeypatch.setattr(threads, "BLOCK", 32)
    assert len(threads.blocks(200)) == 7  # parts of a batch
    found = [trained(METHODS[name](), log, number) for number in (1, 2, 4)]
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("name", ["mf, bce", "mf, softmax", "mf, in-batch", "neumf, bce"])
def test_blocks_change_nothing_but_rounding(name, log, monkeypatch):
    whole = Trainer(METHODS[name](), log, 0, TrainSettings(epochs=1, batch_size=200))
    whole.run()
    monkeypatch.setattr(threads, "BLOCK", 32)
    divided = Trainer(METHODS[name](), log, 0, TrainSettings(epochs=1, batch_size=200))
    divided.run()
    for one, two in zip(whole.method.parameters(), divided.method.parameters(), strict=True):
        assert np.allclose(one.detach().numpy(), two.detach().numpy(), rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("name", ["neumf, bce", "neumf, bpr", "neumf, softmax"])
def test_blocks_of_pairs_have_the_loss_and_the_gradients_of_the_whole_batch(name, log, monkeypatch):
    """One batch, because RMSprop makes steps of the rounding of a gradient that is 0, such as that of the bias."""
    method, rng = METHODS[name](), np.random.default_rng(0)
    method.settings = method.settings.replace(reg=0.01)
    method.build(log, rng)
    method.double()
    count = method.negatives.count
    drawn = rng.integers(len(log.items), size=count if method.negatives.shared else (200, count))
    batch = Batch(*(torch.from_numpy(one.astype(np.int64)) for one in (log.user[:2600:13], log.item[:2600:13], drawn)))
    found = []
    for block in (1024, 32):
        monkeypatch.setattr(threads, "BLOCK", block)
        method.zero_grad()
        loss = method.loss(batch)
        loss.backward()
        found.append([loss.detach(), *(one.grad.clone() for one in method.parameters())])
    assert all(bool(one.any()) for one in found[0][:3])
    torch.testing.assert_close(*found, rtol=1e-9, atol=1e-12)
