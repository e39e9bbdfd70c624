"""UBPR: pairs of items weighted so that exposure cancels out of the pairwise loss."""

from typing import ClassVar, Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from icpe.data.interactions import Interactions
from icpe.methods._parts.exposure import item_propensities, label_used
from icpe.methods._parts.sampled_loss import LossSettings, SampledLoss
from icpe.settings import setting
from icpe.train.abilities import CustomSampling
from icpe.train.batch import Batch, Negatives, SampledBatch
from icpe.train.drawing import SeenPairs


class UBPRSettings(LossSettings):
    """Settings of :class:`UBPR`."""

    loss: ClassVar[Literal["bpr"]] = "bpr"  # type: ignore[misc]  # the only loss, hence not a setting
    temperature: ClassVar[float] = 1.0  # type: ignore[misc]  # BPR has none
    negatives: int = setting(
        1, "Number of second items for each positive (K), sampled from all items; the loss is their mean.", least=1
    )
    propensity_power: float = setting(
        0.5,
        "Power γ of an item's popularity that gives its propensity.",
        least=0.0,
        search=(0.3, 0.5, 0.7, 0.8, 1.0),
    )
    negative_loss_limit: float = setting(
        0.0,
        "How far below 0 the loss of a pair may fall (β). A pair beyond the limit has no gradient; with 0 this is true "
        "of all pairs of two used items.",
        least=0.0,
        search=(0.0, 0.01, 0.1),
    )


class UBPR(CustomSampling, SampledLoss):
    """Unbiased Bayesian personalised ranking (Saito 2020).

    A click is exposure times relevance, and an item is exposed with probability θ_i = (n_i / max n)^γ. The second item
    of a pair is sampled from all items, including those that the user has used; Y_uj says whether the user has used it:

        mean of max(−β, (1/θ_i)·(1 − Y_uj/θ_j)·softplus(−(s_ui − s_uj)))

    Example:
        >>> from icpe.backbones import MF
        >>> UBPR(MF()).settings.propensity_power
        0.5
    """

    name: ClassVar[str] = "ubpr"
    Settings = UBPRSettings
    settings: UBPRSettings
    inverse: Tensor

    @property
    def negatives(self) -> Negatives:
        """One or more for each positive, sampled from all items."""
        return Negatives(self.settings.negatives, seen=True)

    def build(self, train: Interactions, rng: np.random.Generator) -> None:
        """Create the backbone's parameters, 1/θ of the items, and the index of used pairs."""
        super().build(train, rng)
        inverse = 1 / item_propensities(train.item_counts, self.settings.propensity_power)
        self.register_buffer("inverse", torch.from_numpy(inverse.astype(np.float32)))
        self._seen = SeenPairs(train)

    def sample(self, batch: SampledBatch, epoch: int, rng: np.random.Generator) -> SampledBatch:
        """Return the batch with labels that say which second items the user has used."""
        return label_used(batch, self._seen)

    def loss(self, batch: Batch, rng: torch.Generator | None = None) -> Tensor:
        """Return the unbiased pairwise loss, limited to at least −β for each pair, plus the L2 term."""
        wanted = torch.cat([batch.items, batch.negatives.reshape(-1)])
        users, items = self.backbone.rows(batch.users, wanted, rng)
        weight, limit = self._pair_weights(batch), self.settings.negative_loss_limit
        if not self.backbone.inner_product:
            difference = self._differences(batch, users, items)
            loss = (weight * F.softplus(difference)).clamp(min=-limit).mean()
            return loss + self.penalty(batch, (users, items[: len(users)], items[len(users) :]))
        # A pair at the limit has no gradient, so its weight becomes 0, and −β remains of its value.
        if limit == 0:
            weight, at_limit = weight.clamp(min=0), 0.0
        else:
            with torch.no_grad():
                beyond = weight * F.softplus(self._differences(batch, users, items)) < -limit
            weight, at_limit = weight.masked_fill(beyond, 0), limit * float(beyond.to(weight.dtype).mean())
        return self.product_loss(batch, *self._as_pairs(users, items), weight=weight.reshape(-1)) - at_limit

    def _pair_weights(self, batch: Batch) -> Tensor:
        """Return (1/θ_i)·(1 − Y_uj/θ_j), [batch, K]."""
        assert batch.labels is not None, "UBPR needs labels; sample the batch with the method's own sample()"
        return self.inverse[batch.items][:, None] * (1 - batch.labels * self.inverse[batch.negatives])

    def _differences(self, batch: Batch, users: Tensor, items: Tensor) -> Tensor:
        """Return s_uj − s_ui, [batch, K]."""
        negatives = items[len(users) :].view(*batch.negatives.shape, -1)
        return self.backbone.score(users[:, None], negatives) - self.backbone.score(users, items[: len(users)])[:, None]

    def _as_pairs(self, users: Tensor, items: Tensor) -> tuple[Tensor, Tensor]:
        """Repeat users and positives for each of their pairs, because each pair has its own weight."""
        count = self.settings.negatives
        if count == 1:
            return users, items
        positives, negatives = items[: len(users)], items[len(users) :]
        return users.repeat_interleave(count, 0), torch.cat([positives.repeat_interleave(count, 0), negatives])
