"""The kit that every method must pass: ours do, and broken ones are told what is wrong."""

import numpy as np
import pytest
import torch

from icpe import MF, Normal
from icpe.methods.normal import NormalSettings
from icpe.metrics import evaluate_lists
from icpe.ranking import top_n
from icpe.ranking.tables import DotScores
from icpe.testing.backbones import Distance
from icpe.testing.methods import SMALL, block_log, check_method


@pytest.mark.parametrize("loss", ["bce", "bpr", "softmax"])
@pytest.mark.parametrize("backbone", [*SMALL, Distance], ids=["mf", "neumf", "lightgcn", "own"])
def test_normal_keeps_the_contract(loss, backbone):
    count = 8 if loss == "softmax" else 2
    check_method(lambda one: Normal(one, loss=loss, negatives=count), [backbone])


@pytest.mark.parametrize("loss", ["bce", "softmax"])
def test_groups_are_learnt(loss):
    """G4: the list of a user holds the items of the user's group, which popularity knows nothing of."""
    log = block_log()
    count = 32 if loss == "softmax" else 1
    model = Normal(MF(dim=16), loss=loss, negatives=count).fit(log, epochs=60, batch_size=128, lr=0.02)
    everybody = np.arange(len(log.users), dtype=np.int32)

    def ndcg(scores):
        return evaluate_lists(top_n(scores, everybody, 20), log, log, n=[20]).values["ndcg@20"]

    popular = DotScores(np.ones((len(log.users), 1), np.float32), log.item_counts.astype(np.float32)[:, None])
    assert ndcg(popular) < 0.35
    assert ndcg(model.scores) > 0.9


class Undescribed(Normal):
    class Settings(NormalSettings):
        power: float = 1.0


class Forgets(Normal):
    def __init__(self, backbone, **settings):
        super().__init__(backbone, **settings)
        self.settings = self.settings.replace(temperature=2 * self.settings.temperature)


class EarlyParameters(Normal):
    def __init__(self, backbone, **settings):
        super().__init__(backbone, **settings)
        self.weight = torch.nn.Parameter(torch.zeros(1))


class Unused(Normal):
    def build(self, train, rng):
        super().build(train, rng)
        self.unused = torch.nn.Parameter(torch.zeros(2))


class TouchesOthers(Normal):
    def loss(self, batch, rng=None):
        other = (batch.users.max() + 1) % self.backbone.users
        return super().loss(batch, rng) + self.backbone.ego_users(other[None]).square().sum()


class MovesFrozen(Normal):
    def loss(self, batch, rng=None):
        self.backbone.item_table.data.add_(0.01)
        return super().loss(batch, rng)


class LogOfASpread(Normal):
    def loss(self, batch, rng=None):
        users = self.backbone.ego_users(batch.users)
        return super().loss(batch, rng) + 0 * torch.log((users - users.mean(0)).square().sum())


class ReadsTheWholeTable(Normal):
    def loss(self, batch, rng=None):
        return super().loss(batch, rng) + self.backbone.item_table.square().mean()


class VectorLoss(Normal):
    def loss(self, batch, rng=None):
        return super().loss(batch, rng)[None]


class OwnRandomness(Normal):
    def loss(self, batch, rng=None):
        return super().loss(batch, rng) * (1 + 0.1 * torch.rand(1)[0])


class OtherScores(Normal):
    def scores(self):
        users, items = self.backbone.reps()
        return DotScores(users.detach().numpy() * 2, items.detach().numpy())


class NothingToRank(Normal):
    def scores(self):
        users, items = self.backbone.reps()
        return DotScores(users.detach().numpy(), items.detach().numpy(), np.full(len(items), -np.inf, np.float32))

    def score_user(self, user, items):
        return super().score_user(user, items) - torch.inf


class HiddenSchedule(Normal):
    def build(self, train, rng):
        super().build(train, rng)
        self.calls = 0

    def loss(self, batch, rng=None):
        self.calls += 1
        return super().loss(batch, rng) * (1 + self.calls)


class HiddenCoefficient(Normal):
    def build(self, train, rng):
        super().build(train, rng)
        self.factor = float(rng.random())

    def scores(self):
        users, items = self.backbone.reps()
        return DotScores(self.factor * users.detach().numpy(), items.detach().numpy())

    def score_user(self, user, items):
        return self.factor * super().score_user(user, items)


class HiddenTable(Normal):
    """Its own table of items grows with the log, and nobody is told."""

    def build(self, train, rng):
        super().build(train, rng)
        self.offset = torch.nn.Parameter(torch.zeros(len(train.items)))

    def loss(self, batch, rng=None):
        return super().loss(batch, rng) + (self.offset - 1).square().sum()


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (HiddenTable, "the size of offset depends on the log"),
        (Undescribed, "power.* have no description"),
        (Forgets, "rebuilt from its settings it has other settings"),
        (EarlyParameters, "the constructor creates parameters"),
        (Unused, "parameter unused gets no gradient from a batch"),
        (TouchesOthers, "a step moves rows .* of backbone.user_table, which are not in the batch"),
        (MovesFrozen, "a step moves (rows .* of )?backbone.item_table"),
        (LogOfASpread, "a batch of 1 and .* the loss is nan"),
        (ReadsTheWholeTable, "a step moves rows .* of backbone.item_table, which are not in the batch"),
        (VectorLoss, "the loss has the shape .1,.; expected one number"),
        (OwnRandomness, "two runs with one seed have different losses"),
        (OtherScores, "scores.. gives .* score_user"),
        (NothingToRank, "is a score -inf"),
        (HiddenSchedule, "resuming from a saved state"),
        (HiddenCoefficient, "loaded the state_dict of another one gives different scores"),
    ],
)
def test_the_kit_says_what_is_broken(kind, message):
    with pytest.raises((AssertionError, TypeError, RuntimeError), match=message):
        check_method(lambda backbone: kind(backbone), SMALL[:1])


def test_parameters_a_first_step_may_leave_can_be_named():
    check_method(lambda backbone: Unused(backbone), SMALL[:1], untouched=["unused"])


def test_settings_that_are_not_even_a_method():
    with pytest.raises(AssertionError, match="is not a subclass of icpe.methods.Method"):
        check_method(lambda backbone: backbone, SMALL[:1])
