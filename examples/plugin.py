"""A backbone and a method of your own, for every command of icpe.

icpe train demo --plugin examples/plugin.py --backbone metric --method hinge -o run
icpe recommend run --plugin examples/plugin.py --user u0003
"""

import torch
from torch import nn

from icpe import Backbone, Batch, Method, Negatives, Settings, setting
from icpe.backbones import normal_table, take_rows
from icpe.train.method import MethodSettings


class MetricSettings(Settings):
    dim: int = setting(32, "Dimension of the space.", least=1, search=(16, 32, 64))


class Metric(Backbone):
    """Users like the items that are near them: the score is the negative squared distance."""

    name = "metric"
    Settings = MetricSettings

    def build(self, train, rng):
        self.users, self.items = len(train.users), len(train.items)
        self.user_table = normal_table(self.users, self.settings.dim, 0.1, rng)
        self.item_table = normal_table(self.items, self.settings.dim, 0.1, rng)

    def reps(self, rng=None):
        return self.user_table, self.item_table

    def row_tables(self):
        return [self.user_table], [self.item_table]

    def interact(self, z_user, z_item):
        return (z_user - z_item).square()

    def out(self, phi):
        return -phi.sum(-1)

    def ego_users(self, users):
        return take_rows(self.user_table, users)

    def ego_items(self, items):
        return take_rows(self.item_table, items)

    def user_parameters(self) -> list[nn.Parameter]:
        return [self.user_table]

    def item_parameters(self) -> list[nn.Parameter]:
        return [self.item_table]


class HingeSettings(MethodSettings):
    margin: float = setting(1.0, "Distance by which a positive must beat its negative.", above=0.0, search=(0.5, 1.0))


class Hinge(Method):
    """A positive item must score higher than a negative one by a margin."""

    name = "hinge"
    Settings = HingeSettings
    negatives = Negatives(1)

    def loss(self, batch: Batch, rng=None) -> torch.Tensor:
        users, items = self.backbone.reps(rng)
        user = users[batch.users]
        gap = self.backbone.score(user, items[batch.items]) - self.backbone.score(user, items[batch.negatives[:, 0]])
        return (self.settings.margin - gap).relu().mean() + self.penalty(batch)
