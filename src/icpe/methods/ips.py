"""IPS: positives weighted by the inverse propensity of their item."""

from typing import ClassVar, Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from icpe.data.interactions import Interactions
from icpe.methods._parts.exposure import item_propensities
from icpe.methods._parts.sampled_loss import LossSettings, SampledLoss
from icpe.settings import setting
from icpe.train.batch import Batch
from icpe.types import FloatArray


class IPSSettings(LossSettings):
    """Settings of :class:`IPS`."""

    temperature: ClassVar[float] = 1.0  # type: ignore[misc]  # neither of the two losses has one
    loss: Literal["bce", "bpr"] = setting(
        "bce", "Loss: binary cross-entropy (bce) or Bayesian personalised ranking (bpr)."
    )
    negatives: int = setting(1, "Number of negatives for each positive (K).", least=1)
    propensity_power: float = setting(
        1.0,
        "Power γ of an item's popularity that gives its propensity; 0 is training without weights.",
        least=0.0,
        search=(0.25, 0.5, 0.75, 1.0),
    )
    clip_percentile: float = setting(
        50.0,
        "Percentile of the items' weights at which weights are clipped; 50 is their median, 100 clips nothing.",
        least=0.0,
        most=100.0,
        search=(50.0, 75.0, 90.0, 99.0, 100.0),
    )
    divide_by: Literal["mean", "max", "batch"] = setting(
        "mean",
        "What the weights are divided by: their mean over the training pairs (mean), which keeps the meaning of the "
        "learning rate and λ, their maximum (max), or their mean in each batch (batch, self-normalised).",
    )


class IPS(SampledLoss):
    """Inverse propensity scoring with clipped and normalised weights (Schnabel et al. 2016).

    The propensity of an item is a power of its popularity, p_i = (n_i / max n)^γ. A positive has the weight
    w_i = 1/p_i, clipped at a percentile of the weights of all items.

    * ``loss="bce"``: mean of w_i·softplus(−s_ui) + (1/K)·Σ_k softplus(s_uj).
    * ``loss="bpr"``: mean of w_i·(1/K)·Σ_k softplus(−(s_ui − s_uj)).

    Example:
        >>> from icpe.backbones import MF
        >>> IPS(MF(), propensity_power=0.5).settings.divide_by
        'mean'
    """

    name: ClassVar[str] = "ips"
    Settings = IPSSettings
    settings: IPSSettings
    weight: Tensor

    def build(self, train: Interactions, rng: np.random.Generator) -> None:
        """Create the backbone's parameters and the weights of the items."""
        super().build(train, rng)
        propensity = item_propensities(train.item_counts, self.settings.propensity_power)
        weight = clipped(1 / propensity, self.settings.clip_percentile)
        if self.settings.divide_by == "mean":
            weight /= (train.item_counts * weight).sum() / len(train)
        elif self.settings.divide_by == "max":
            weight /= weight.max()
        self.register_buffer("weight", torch.from_numpy(weight.astype(np.float32)))

    def loss(self, batch: Batch, rng: torch.Generator | None = None) -> Tensor:
        """Return the weighted loss plus the L2 term."""
        wanted = torch.cat([batch.items, batch.negatives.reshape(-1)])
        users, items = self.backbone.rows(batch.users, wanted, rng)
        weight = self.weight[batch.items]
        if self.settings.divide_by == "batch":
            weight = weight / weight.mean()
        if self.backbone.inner_product:
            return self.product_loss(batch, users, items, weight=weight)
        positives, negatives = items[: len(users)], items[len(users) :]
        positive = self.backbone.score(users, positives)
        negative = self.backbone.score(users[:, None], negatives.view(*batch.negatives.shape, -1))
        if self.settings.loss == "bpr":
            loss = (weight * F.softplus(negative - positive[:, None]).mean(1)).mean()
        else:
            loss = (weight * F.softplus(-positive)).mean() + F.softplus(negative).mean()
        return loss + self.penalty(batch, (users, positives, negatives))


def clipped(weights: FloatArray, percentile: float) -> FloatArray:
    """Return the weights, limited to a percentile of them.

    The limit is always one of the weights, never the mean of two. A power of clipped weights is therefore the same as
    the clipped powers.
    """
    return np.minimum(weights, np.percentile(weights, percentile, method="lower"))
