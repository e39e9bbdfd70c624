"""BSL: a softmax that treats the positives of a user as it treats the negatives."""

from functools import partial
from typing import ClassVar, Self

import torch
from torch import Tensor

from icpe.backbones.base import Backbone
from icpe.methods._parts.distinct import distinct
from icpe.methods._parts.score_loss import OfScores, ScoreLoss, ScoreLossSettings, log_of_sum, loss_on_scores
from icpe.settings import setting
from icpe.train.batch import Batch


class BSLSettings(ScoreLossSettings):
    """Settings of :class:`BSL`."""

    temperature: float = setting(0.2, "Temperature τ₂ of the negatives.", above=0.0, search=(0.1, 0.15, 0.2, 0.25, 0.3))
    positive_temperature: float | None = setting(
        None,
        "Temperature τ₁ of the positives; large values weigh the positives of a user alike. Default: that of the "
        "negatives.",
        above=0.0,
        search=(0.1, 0.2, 0.5, 1.0),
    )
    negative_weight: float = setting(
        1.0,
        "Weight w of the part of the negatives: 1 is a softmax; the public code has it as a power of the denominator.",
        above=0.0,
        search=(0.8, 1.0, 1.1, 1.2),
    )

    def completed(self, backbone: Backbone) -> Self:
        """Return the settings with the number of negatives and the temperature of the positives filled in."""
        settings = super().completed(backbone)
        if settings.positive_temperature is None:
            return settings.replace(positive_temperature=settings.temperature)
        return settings


class BSL(ScoreLoss):
    """Bilateral softmax loss (Wu et al. 2024), on cosines.

    With B_u the positives of user u in the batch, and negatives j that the batch shares, training minimises

        mean of −(τ₁/τ₂)·log mean_{i' in B_u} e^(cos θ_ui'/τ₁) + w·log(e^(cos θ_ui/τ₂) + Σ_j e^(cos θ_uj/τ₂))

    A softmax has −cos θ_ui/τ₂ in place of the first part. Here, positives that fit their user badly have a smaller
    weight in the gradient, because they may be noise. The two losses agree if w is 1 and every user has one positive in
    the batch, or τ₁ is large.

    Example:
        >>> from icpe.backbones import MF
        >>> BSL(MF(), temperature=0.1).settings.positive_temperature
        0.1
    """

    name: ClassVar[str] = "bsl"
    Settings = BSLSettings
    settings: BSLSettings

    def of_scores(self, batch: Batch) -> OfScores:
        """Return the loss of scores, in which the positives of each user form a group."""
        return self._of_groups(distinct(batch.users, self.backbone.users)[1])

    def user_loss(self, positive: Tensor, negative: Tensor) -> Tensor:
        """Return the training loss with all other items as negatives."""
        group = torch.zeros(len(positive), dtype=torch.int64, device=positive.device)
        return loss_on_scores(positive, negative.expand(len(positive), -1), self._of_groups(group))

    def _of_groups(self, group: Tensor) -> OfScores:
        settings = self.settings
        temperatures = settings.positive_temperature or self.temperature, self.temperature
        return partial(bilateral_softmax, group=group, temperatures=temperatures, weight=settings.negative_weight)


def bilateral_softmax(
    positive: Tensor, negative: Tensor, group: Tensor, temperatures: tuple[float, float], weight: float
) -> tuple[float, Tensor, Tensor]:
    """Return the loss of scores [b] and [b, m], and its gradients with respect to both. ``negative`` is overwritten.

    Args:
        positive: scores of the positives.
        negative: scores of the negatives.
        group: number of the user of each row, int64 [b]: 0, 1, ….
        temperatures: τ₁ and τ₂.
        weight: w.
    """
    first, second = temperatures
    size = len(positive)
    # In float64, because a large temperature leaves differences that float32 does not have.
    log_mean, chance_in_group = _log_mean(positive.double() / first, group)
    others, chance = log_of_sum(negative.div_(second))
    total = torch.logaddexp(positive / second, others)
    value = weight * float(total.mean()) - first / second * float(log_mean[group].mean())
    share = weight / (second * size)
    to_negative = chance.mul_((share * (others - total).exp())[:, None])
    # All rows of a user contain the same mean.
    to_positive = share * (positive / second - total).exp() - chance_in_group.to(positive) / (second * size)
    return value, to_positive, to_negative


def _log_mean(logits: Tensor, group: Tensor) -> tuple[Tensor, Tensor]:
    """Return log mean exp of the logits of each group, and the gradient of its sum over all rows, [b]."""
    counts = torch.bincount(group).to(logits)
    highest = torch.full_like(counts, -torch.inf).scatter_reduce(0, group, logits, "amax")
    terms = (logits - highest[group]).exp()
    means = torch.zeros_like(counts).index_add_(0, group, terms) / counts
    return highest + means.log(), terms / means[group]
