"""Logit adjustment: log popularity is added to the score in training and left out in ranking."""

from typing import ClassVar, Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from icpe.data.interactions import Interactions
from icpe.methods._parts.log_popularity import log_popularity
from icpe.methods._parts.sampled_loss import LossSettings, SampledLoss
from icpe.settings import setting
from icpe.train.batch import Batch


class LogitAdjustmentSettings(LossSettings):
    """Settings of :class:`LogitAdjustment`."""

    loss: Literal["softmax", "bce"] = setting(
        "softmax", "Loss: softmax over cosine / temperature against shared negatives, or binary cross-entropy (bce)."
    )
    temperature: float = setting(0.22, "Temperature τ of the softmax.", above=0.0, search=(0.15, 0.2, 0.22, 0.25, 0.3))
    strength: float = setting(
        0.85,
        "Strength κ of log popularity in the training score; 0 is training without debiasing.",
        least=0.0,
        search=(0.3, 0.5, 0.6, 0.7, 0.85, 1.0),
    )


class LogitAdjustment(SampledLoss):
    """Logit adjustment (Menon et al. 2021): the loss uses s_ui + κ·log(training count), ranking uses s_ui.

    The model does not need to learn what popularity explains. For softmax the score is cosine / temperature.

    Example:
        >>> from icpe.backbones import MF
        >>> LogitAdjustment(MF()).settings.strength
        0.85
    """

    name: ClassVar[str] = "logit_adjustment"
    label: ClassVar[str] = "Log-popularity offset"
    Settings = LogitAdjustmentSettings
    settings: LogitAdjustmentSettings
    log_popularity: Tensor

    def build(self, train: Interactions, rng: np.random.Generator) -> None:
        """Create the backbone's parameters and the popularity of the items."""
        super().build(train, rng)
        self.register_buffer("log_popularity", log_popularity(train))

    def loss(self, batch: Batch, rng: torch.Generator | None = None) -> Tensor:
        """Return the loss of the adjusted scores plus the L2 term."""
        wanted = torch.cat([batch.items, batch.negatives.reshape(-1)])
        users, items = self.backbone.rows(batch.users, wanted, rng)
        offset = self.settings.strength * self.log_popularity[wanted]
        if self.backbone.inner_product:
            return self.product_loss(batch, users, items, offset=offset)
        count, sharpness = len(users), 1 / self.score_unit
        negatives = items[count:].view(*batch.negatives.shape, -1)
        positive = sharpness * self.backbone.score(users, items[:count]) + offset[:count]
        negative = sharpness * self.backbone.score(users[:, None], negatives)
        negative = negative + offset[count:].view(batch.negatives.shape)
        if self.settings.loss == "bce":
            loss = F.softplus(-positive).mean() + F.softplus(negative).mean()
        else:
            loss = (torch.logaddexp(positive, torch.logsumexp(negative, 1)) - positive).mean()
        return loss + self.penalty(batch, (users, items[:count], items[count:]))
