"""A loss may read a table by plain indexing. The table is then trained as a whole and never silently ignored."""

import json

import pytest
import torch
import torch.nn.functional as F

from icpe import MF, IcpeError, Method, Negatives, NeuMF
from icpe.backbones import take_rows
from icpe.testing import skewed_log
from icpe.testing.methods import check_method
from icpe.train import Trainer, TrainSettings

LOG = skewed_log(users=40, items=30, pairs=400)


class Indexed(Method):
    """Binary cross-entropy, with rows read from ``reps`` in the natural way."""

    name = "indexed"
    negatives = Negatives(1)

    def read(self, table, rows):
        return table[rows]

    def loss(self, batch, rng=None):
        users, items = self.backbone.reps(rng)
        user = self.read(users, batch.users)
        positive = self.backbone.score(user, self.read(items, batch.items))
        negative = self.backbone.score(user, self.read(items, batch.negatives[:, 0]))
        return F.softplus(-positive).mean() + F.softplus(negative).mean()


class ByRows(Indexed):
    name = "by_rows"

    def read(self, table, rows):
        return take_rows(table, rows)


class Mixed(Indexed):
    """The loss reads users by rows and items as a whole; the L2 term reads both by rows."""

    name = "mixed"

    def loss(self, batch, rng=None):
        users, items = self.backbone.rows(batch.users, batch.items, rng)
        others = self.backbone.reps(rng)[1][batch.negatives[:, 0]]
        scores = self.backbone.score(users, items), self.backbone.score(users, others)
        return F.softplus(-scores[0]).mean() + F.softplus(scores[1]).mean() + self.penalty(batch)


class Changes(Indexed):
    """Method that reads rows in the first steps and the whole table later."""

    name = "changes"

    def build(self, train, rng):
        super().build(train, rng)
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))

    def read(self, table, rows):
        return table[rows] if self.steps > 3 else take_rows(table, rows)

    def loss(self, batch, rng=None):
        self.steps += 1
        return super().loss(batch, rng)


def trainer(kind, backbone=None, **settings):
    made = kind(backbone or MF(dim=4, init_std=0.1), reg=0.01 if kind is Mixed else 0.0)
    return Trainer(made, LOG, 0, TrainSettings(**{"epochs": 5, "batch_size": 32, "lr": 0.01, **settings}))


@pytest.mark.parametrize("backbone", [lambda: MF(dim=4, init_std=0.1), lambda: NeuMF(dim=4, layers=(4,), init_std=0.1)])
def test_indexing_trains_like_reading_rows(backbone):
    """The gradients are the same, so the parameters equal those of the row optimiser up to rounding."""
    states = []
    for kind in (Indexed, ByRows):
        run = trainer(kind, backbone())
        before = {name: value.detach().clone() for name, value in run.method.named_parameters()}
        run.run()
        states.append(run.method.state_dict())
        assert all(not torch.equal(before[name], value) for name, value in run.method.named_parameters())
    for name, value in states[0].items():
        torch.testing.assert_close(value, states[1][name], atol=2e-4, rtol=1e-3)


@pytest.mark.parametrize("kind", [Indexed, Mixed])
def test_the_kit_accepts_it(kind):
    check_method(kind, [lambda: MF(dim=4)])


@pytest.mark.parametrize("kind", [Indexed, Mixed])
def test_it_resumes_with_the_same_bytes(kind):
    whole, first, second = (trainer(kind, evaluate_every=7) for _ in range(3))
    whole.run()
    kept = {}

    def keep(record):
        if record["step"] == 7:
            kept.update(tensors={name: value.clone() for name, value in first.tensors().items()}, record=first.record())

    first.run(on_evaluation=keep)
    second.restore(kept["tensors"], json.loads(json.dumps(kept["record"])))
    second.run()
    for name, value in whole.method.state_dict().items():
        assert torch.equal(value, second.method.state_dict()[name])


def test_a_table_read_by_rows_and_later_as_a_whole_is_refused():
    with pytest.raises(IcpeError, match=r"step 4: the loss reads backbone\.\w+ as a whole.*take_rows"):
        trainer(Changes).run()
