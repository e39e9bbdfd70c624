"""PAAC: unpopular items learn from popular items of the same user, and are not pushed away from them."""

from dataclasses import replace
from typing import ClassVar, Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from icpe.data.interactions import Interactions
from icpe.methods._parts.contrast import contrast, noisy_view
from icpe.methods._parts.distinct import first_places
from icpe.methods._parts.other_half import OtherHalf
from icpe.methods._parts.sampled_loss import LossSettings, SampledLoss
from icpe.settings import setting
from icpe.train.abilities import CustomSampling
from icpe.train.batch import Batch, SampledBatch


class PAACSettings(LossSettings):
    """Settings of :class:`PAAC`."""

    loss: ClassVar[Literal["bpr"]] = "bpr"  # type: ignore[misc]  # the only loss, hence not a setting
    negatives: ClassVar[int] = 1  # type: ignore[misc]
    temperature: float = setting(0.2, "Temperature τ of the contrast.", above=0.0, search=(0.1, 0.2, 0.3))
    alignment_weight: float = setting(
        0.1,
        "Weight λ₁ of the alignment of popular and unpopular items of the same user.",
        least=0.0,
        search=(0.0, 0.03, 0.1, 0.3, 1.0),
    )
    contrast_weight: float = setting(0.1, "Weight λ₂ of the contrast.", least=0.0, search=(0.01, 0.03, 0.1, 0.2, 0.5))
    popular_weight: float = setting(
        0.5,
        "Weight γ of the more popular half in the contrast of items; the other half has 1 − γ.",
        least=0.0,
        most=1.0,
        search=(0.2, 0.5, 0.8),
    )
    other_weight: float = setting(
        0.2,
        "Weight β of the items of the other half as negatives in the contrast of items; 1 is a contrast without "
        "halves.",
        least=0.0,
        search=(0.2, 0.5, 0.8),
    )
    noise: float = setting(0.2, "Length ε of the noise that makes two views of a unit vector.", above=0.0)


class PAAC(CustomSampling, SampledLoss):
    """Popularity-aware alignment and contrast (Cai et al. 2024).

    Training minimises BPR + λ₁·alignment + λ₂·(contrast of users + contrast of items). The alignment is the mean
    squared distance between unit vectors of an unpopular and a popular item of the same user. The contrast makes two
    noisy views of a unit vector similar and those of different users or items dissimilar; an item pushes items of the
    other half of popularity away with the weight β only, because popularity alone should not separate items.

    Example:
        >>> from icpe.backbones import LightGCN
        >>> PAAC(LightGCN(), contrast_weight=0.2).settings.popular_weight
        0.5
    """

    name: ClassVar[str] = "paac"
    Settings = PAACSettings
    settings: PAACSettings
    counts: Tensor

    def build(self, train: Interactions, rng: np.random.Generator) -> None:
        """Create the backbone's parameters and the popularity of the items."""
        super().build(train, rng)
        self._other_half = OtherHalf(train)
        self.register_buffer("counts", torch.from_numpy(train.item_counts.astype(np.int64)), persistent=False)

    def sample(self, batch: SampledBatch, epoch: int, rng: np.random.Generator) -> SampledBatch:
        """Return the batch with a second column of negatives: an item from the other half of the user's items."""
        partners = self._other_half.sample(batch.rows, rng)
        return replace(batch, negatives=np.concatenate([batch.negatives, partners[:, None]], 1))

    def loss(self, batch: Batch, rng: torch.Generator | None = None) -> Tensor:
        """Return BPR, alignment, contrast and the L2 term."""
        size, settings = len(batch.users), self.settings
        negatives, partners = batch.negatives.T
        users, items = self.backbone.rows(batch.users, torch.cat([batch.items, negatives, partners]), rng)
        pairs = Batch(batch.users, batch.items, negatives[:, None])
        if self.backbone.inner_product:
            loss = self.product_loss(pairs, users, items[: 2 * size])
        else:
            taken = users, items[:size], items[size : 2 * size]
            loss = self._logit_loss(*taken[:2], taken[2][:, None]) + self.penalty(pairs, taken)
        if settings.alignment_weight:
            loss = loss + settings.alignment_weight * alignment(items[:size], items[2 * size :])
        if settings.contrast_weight:
            loss = loss + settings.contrast_weight * self._contrasts(batch, users, items[:size], rng)
        return loss

    def _contrasts(self, batch: Batch, users: Tensor, items: Tensor, rng: torch.Generator | None) -> Tensor:
        """Return the contrast of the users and of the positives of a batch, each counted once."""
        settings = self.settings
        distinct_users = users[first_places(batch.users, self.backbone.users)]
        places = first_places(batch.items, self.backbone.items)
        places = places[torch.argsort(self.counts[batch.items[places]], stable=True)]
        unpopular, popular = len(places) // 2, len(places) - len(places) // 2
        weights = items.new_full((len(places),), settings.popular_weight / popular)
        weights[:unpopular] = (1 - settings.popular_weight) / max(unpopular, 1)
        alike = items.new_full((len(distinct_users),), 1 / len(distinct_users))
        of_users = contrast(*self._views(distinct_users, rng), alike, settings.temperature)
        views = self._views(items[places], rng)
        return of_users + contrast(*views, weights, settings.temperature, unpopular, settings.other_weight)

    def _views(self, rows: Tensor, rng: torch.Generator | None) -> tuple[Tensor, Tensor]:
        units = F.normalize(rows, dim=-1)
        return noisy_view(units, self.settings.noise, rng), noisy_view(units, self.settings.noise, rng)


def alignment(items: Tensor, others: Tensor) -> Tensor:
    """Return the mean squared distance between unit vectors of pairs of items, [n, D] × [n, D].

    Example:
        >>> float(alignment(torch.tensor([[2.0, 0.0]]), torch.tensor([[0.0, 3.0]])))
        2.0
    """
    return (F.normalize(items, dim=-1) - F.normalize(others, dim=-1)).square().sum(-1).mean()
