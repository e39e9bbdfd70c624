"""A model of what popularity explains: it sees only the activity of users and the popularity of items."""

from collections.abc import Iterator
from typing import ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from icpe.backbones.base import normal_table
from icpe.data.interactions import Interactions
from icpe.data.popularity import head_mask
from icpe.errors import DataError
from icpe.methods.base import Method
from icpe.rng import random_keys, stream
from icpe.settings import setting
from icpe.train.abilities import Refresh
from icpe.train.drawing import SeenPairs, uniform_items
from icpe.train.method import MethodSettings
from icpe.train.small_optimizer import Adam
from icpe.types import IntArray

_MIN_NORM = 1e-8  # smallest norm by which a vector is divided
_LR, _BATCH = 1e-3, 1024  # of this model, independent of the settings of the run


class PopularityModelSettings(MethodSettings):
    """Settings of a method with a popularity model."""

    bias_temperature: float = setting(
        0.1, "Temperature τ₂ of the softmax of the popularity model.", above=0.0, search=(0.1, 0.2)
    )
    bias_epochs: int = setting(
        5, "Number of epochs for which the popularity model is trained (T₀).", least=1, search=(3, 5, 10)
    )


class PopularityModel(Refresh, Method):
    """A method whose popularity model is trained before the first step and does not change afterwards.

    Users with the same training count share a row of ``activity`` (P), and items with the same count share a row of
    ``popularity`` (Q). They minimise the cross-entropy of cos(P_u, Q_i) / temperature of a training pair against
    uniform items that its user has not used.

    Attributes:
        activity: P, one row for each distinct count of users.
        popularity: Q, one row for each distinct count of items.
        user_level: row of P that belongs to each user.
        item_level: row of Q that belongs to each item.
    """

    Settings: ClassVar[type[PopularityModelSettings]] = PopularityModelSettings
    settings: PopularityModelSettings
    activity: Tensor
    popularity: Tensor
    user_level: Tensor
    item_level: Tensor

    @property
    def bias_negatives(self) -> int:
        """Number of negatives for each positive of the popularity model."""
        return 128

    def build(self, train: Interactions, rng: np.random.Generator) -> None:
        """Build the backbone, then the popularity model.

        Raises:
            DataError: a user has used every item, so that no negative exists.
        """
        if int(train.user_counts.max()) >= len(train.items):
            user = train.users[int(train.user_counts.argmax())]
            raise DataError(
                f"user {user!r} has used all {len(train.items)} items, so that no negative is left to sample. "
                "Remove such users"
            )
        super().build(train, rng)
        self._train = train
        with torch.no_grad():
            width = self.backbone.reps()[1].shape[1]
        for name, level, counts in (
            ("activity", "user_level", train.user_counts),
            ("popularity", "item_level", train.item_counts),
        ):
            rows, levels = np.unique(counts, return_inverse=True)
            start = normal_table(len(rows), width, (2 / (len(rows) + width)) ** 0.5, rng)
            self.register_buffer(name, start.detach())
            self.register_buffer(level, torch.from_numpy(levels.astype(np.int64)), persistent=False)

    def refresh_due(self, step: int, epoch_steps: int) -> bool:
        """Whether this is the first step."""
        return step == 0

    def refresh(self, step: int, seed: int) -> None:
        """Train the popularity model on the CPU with its own optimiser; the backbone does not change."""
        tables = [table.detach().cpu().clone().requires_grad_() for table in (self.activity, self.popularity)]
        optimizer = Adam(tables, _LR)
        user_level, item_level = self.user_level.cpu(), self.item_level.cpu()
        with torch.enable_grad():
            for users, items, negatives in self.bias_batches(seed):
                # A logit depends on the two levels alone, and combinations of levels are far fewer than pairs.
                activity, popularity = (F.normalize(table, dim=-1, eps=_MIN_NORM) for table in tables)
                logits = activity @ popularity.T / self.settings.bias_temperature
                gradient = softmax_gradient(
                    logits.detach(), user_level[users], item_level[items], item_level[negatives]
                )
                torch.autograd.backward(logits, gradient)
                optimizer.step()
        self.activity.copy_(tables[0].detach())
        self.popularity.copy_(tables[1].detach())

    def bias_batches(self, seed: int) -> Iterator[tuple[IntArray, IntArray, IntArray]]:
        """Yield codes of users, items and negatives for all steps of the popularity model.

        The negatives are uniform even if the backbone uses those of its batch. Those are as popular as the positives,
        so a model that sees only popularity could not distinguish them.
        """
        train, seen = self._train, SeenPairs(self._train)
        for epoch in range(self.settings.bias_epochs):
            order = stream(seed, f"{self.name}/shuffle/{epoch}").permutation(len(train))
            for first in range(0, len(train), _BATCH):
                rows = order[first : first + _BATCH]
                shape = (len(rows), self.bias_negatives)
                keys = random_keys(seed, f"{self.name}/negatives/{epoch}/{first}", shape[0] * shape[1]).reshape(shape)
                negatives = uniform_items(keys, len(train.items))
                seen.replace(train.user[rows], negatives, keys)
                yield train.user[rows], train.item[rows], negatives

    def level_products(self) -> Tensor:
        """Return P·Qᵀ, with vectors that are not normalised, [levels of users, levels of items]."""
        return self.activity @ self.popularity.T

    def group_means(self, values: Tensor) -> tuple[float | None, float | None]:
        """Return the means of a value over the training pairs with head items and over those with niche items.

        Args:
            values: the value of each combination of levels, [levels of users, levels of items].
        """
        train = self._train
        users, items = (torch.from_numpy(one.astype(np.int64)).to(values.device) for one in (train.user, train.item))
        each = values[self.user_level[users], self.item_level[items]]
        head = torch.from_numpy(head_mask(train.item_counts)).to(values.device)[items]
        of_head, of_niche = (float(part.mean()) if len(part) else None for part in (each[head], each[~head]))
        return of_head, of_niche


def softmax_gradient(logits: Tensor, users: Tensor, items: Tensor, negatives: Tensor) -> Tensor:
    """Return the gradient of a batch's mean cross-entropy at the logits of all combinations of levels.

    It is the expected minus the observed number of pairs of each combination, divided by the size of the batch.

    Args:
        logits: [levels of users, levels of items].
        users: levels of the users, int64 [batch].
        items: levels of their positives, int64 [batch].
        negatives: levels of the negatives, int64 [batch, N].
    """
    cells = torch.cat([items[:, None], negatives], 1).add_(users[:, None] * logits.shape[1])
    probability = torch.softmax(logits.reshape(-1)[cells], 1)
    probability[:, 0] -= 1
    gradient = torch.bincount(cells.view(-1), probability.view(-1), minlength=logits.numel())
    return (gradient / len(users)).to(logits).view_as(logits)
