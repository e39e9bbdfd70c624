"""Rel-MF: positives and sampled items weighted so that exposure cancels out of the pointwise loss."""

from typing import ClassVar, Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from icpe.data.interactions import Interactions
from icpe.methods._parts.exposure import item_propensities, label_used
from icpe.methods.base import Method
from icpe.settings import setting
from icpe.train.abilities import CustomSampling, FoldIn
from icpe.train.batch import Batch, Negatives, SampledBatch
from icpe.train.drawing import SeenPairs
from icpe.train.method import MethodSettings


class RelMFSettings(MethodSettings):
    """Settings of :class:`RelMF`."""

    loss: Literal["squared", "log"] = setting("squared", "Loss of a pair: squared error of σ(s), or cross-entropy.")
    negatives: int = setting(
        1, "Number of items sampled for each positive (K), from all items; their loss is a mean.", least=1
    )
    propensity_power: float = setting(
        0.5,
        "Power γ of an item's popularity that gives its propensity.",
        least=0.0,
        search=(0.3, 0.5, 0.7, 0.8, 1.0),
    )
    min_propensity: float = setting(
        0.01,
        "Smallest propensity ε of an item.",
        least=0.0,
        most=1.0,
        search=(0.001, 0.01, 0.05, 0.1),
    )


class RelMF(CustomSampling, FoldIn, Method):
    """Relevance matrix factorisation (Saito et al. 2020), on any backbone.

    A click is exposure times relevance, and an item is exposed with probability θ_i = max((n_i / max n)^γ, ε). The loss
    of a positive (Y = 1), and of an item sampled from all items, including used ones, is

        (Y/θ)·δ₁ + (1 − Y/θ)·δ₀

    Its expectation over exposure is the loss of the relevance itself.

    * ``loss="squared"``: δ₁ = (1 − σ(s))², δ₀ = σ(s)².
    * ``loss="log"``: δ₁ = softplus(−s), δ₀ = softplus(s). Since 1 − 1/θ is negative, the loss of a positive would fall
      without bound as its score grows; the loss of a pair is therefore never less than 0.

    Example:
        >>> from icpe.backbones import MF
        >>> RelMF(MF()).settings.min_propensity
        0.01
    """

    name: ClassVar[str] = "relmf"
    label: ClassVar[str] = "Rel-MF"
    Settings = RelMFSettings
    settings: RelMFSettings
    inverse: Tensor

    @property
    def negatives(self) -> Negatives:
        """One or more for each positive, sampled from all items."""
        return Negatives(self.settings.negatives, seen=True)

    def build(self, train: Interactions, rng: np.random.Generator) -> None:
        """Create the backbone's parameters, 1/θ of the items, and the index of used pairs."""
        super().build(train, rng)
        propensity = item_propensities(train.item_counts, self.settings.propensity_power)
        inverse = 1 / np.maximum(propensity, self.settings.min_propensity)
        self.register_buffer("inverse", torch.from_numpy(inverse.astype(np.float32)))
        self._seen = SeenPairs(train)

    def sample(self, batch: SampledBatch, epoch: int, rng: np.random.Generator) -> SampledBatch:
        """Return the batch with labels that say which sampled items the user has used."""
        return label_used(batch, self._seen)

    def loss(self, batch: Batch, rng: torch.Generator | None = None) -> Tensor:
        """Return the mean loss of positives plus that of sampled items plus the L2 term."""
        assert batch.labels is not None, "Rel-MF needs labels; sample the batch with the method's own sample()"
        wanted = torch.cat([batch.items, batch.negatives.reshape(-1)])
        users, items = self.backbone.rows(batch.users, wanted, rng)
        positives, negatives = items[: len(users)], items[len(users) :]
        positive = self.backbone.score(users, positives)
        negative = self.backbone.score(users[:, None], negatives.view(*batch.negatives.shape, -1))
        loss = self._pair_losses(positive, self.inverse[batch.items]).mean()
        loss = loss + self._pair_losses(negative, batch.labels * self.inverse[batch.negatives]).mean()
        return loss + self.penalty(batch, (users, positives, negatives))

    def score_user(self, user: Tensor, items: Tensor) -> Tensor:
        """Return the logits of one user."""
        return self.backbone.score(user, items)

    def user_loss(self, positive: Tensor, negative: Tensor) -> Tensor:
        """Return the training loss with all other items as negatives and with full exposure."""
        one = torch.ones((), dtype=positive.dtype, device=positive.device)
        return self._pair_losses(positive, one).mean() + self._pair_losses(negative, 0 * one).mean()

    def _pair_losses(self, score: Tensor, target: Tensor) -> Tensor:
        """Return the loss of each pair from its score and Y/θ; both forms are multiplied out."""
        if self.settings.loss == "log":
            return (F.softplus(-score) + (1 - target) * score).clamp(min=0)
        chance = torch.sigmoid(score)
        return target + chance * (chance - 2 * target)
