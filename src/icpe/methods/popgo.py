"""PopGo: scores are weighted by what popularity explains in training, and rank without it."""

from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from icpe.methods._parts.popularity_model import PopularityModel, PopularityModelSettings
from icpe.methods._parts.score_loss import OfScores, ScoreLoss, ScoreLossSettings, log_of_sum
from icpe.settings import setting
from icpe.train.abilities import Diagnostics
from icpe.train.batch import Batch


class PopGoSettings(PopularityModelSettings, ScoreLossSettings):
    """Settings of :class:`PopGo`."""

    temperature: float = setting(0.1, "Temperature τ₁ of the softmax.", above=0.0, search=(0.05, 0.07, 0.1, 0.15, 0.2))


class PopGo(PopularityModel, Diagnostics, ScoreLoss):
    """PopGo (Zhang et al. 2023), on cosines: a shortcut model takes over what popularity explains.

    A popularity model learns the training pairs from the user's activity and the item's popularity alone. Its shortcut
    degree of a pair is g_ui = σ(P_u·Q_i). Then the backbone minimises the softmax of g_ui·cos θ_ui / τ₁ against
    negatives that the batch shares, so that it need not learn what the shortcut degree explains. Items are ranked by
    cos θ_ui.

    Example:
        >>> from icpe.backbones import MF
        >>> PopGo(MF()).settings.bias_epochs
        5
    """

    name: ClassVar[str] = "popgo"
    Settings = PopGoSettings
    settings: PopGoSettings

    def of_scores(self, batch: Batch) -> OfScores:
        """Return the softmax of the scores times their shortcut degrees."""
        degrees = torch.sigmoid(self.level_products())
        rows, positives = self.user_level[batch.users], self.item_level[batch.items]
        own, others = degrees[rows, positives], degrees[rows][:, self.item_level[batch.negatives]]

        def loss(positive: Tensor, negative: Tensor) -> tuple[float, Tensor, Tensor]:
            return weighted_softmax(positive, negative, own.to(positive), others.to(positive), self.temperature)

        return loss

    def diagnostics(self) -> dict[str, Any]:
        """Return the mean shortcut degrees of training pairs with head items and with niche items."""
        head, niche = self.group_means(torch.sigmoid(self.level_products()))
        return {"head_shortcut": head, "niche_shortcut": niche}


def weighted_softmax(
    positive: Tensor, negative: Tensor, own: Tensor, others: Tensor, temperature: float
) -> tuple[float, Tensor, Tensor]:
    """Return the softmax loss of scores [b] and [b, m] times factors of these shapes, and its gradients.

    ``negative`` is overwritten. The gradients are those with respect to the scores.
    """
    scale = own / temperature
    sums, chance = log_of_sum(negative.mul_(others).div_(temperature).sub_((positive * scale)[:, None]))
    total = F.softplus(sums)
    share = (sums - total).exp() / len(positive)
    to_negative = chance.mul_(others).mul_((share / temperature)[:, None])
    return float(total.mean()), -share * scale, to_negative
