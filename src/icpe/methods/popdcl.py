"""PopDCL: an in-batch softmax whose scores are corrected for popularity and for negatives that are positives."""

from functools import partial
from typing import ClassVar, Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from icpe.data.interactions import Interactions
from icpe.methods._parts.inner_product import require_inner_product
from icpe.methods._parts.sampled_loss import LossSettings, SampledLoss
from icpe.methods._parts.score_loss import log_of_sum, loss_on_cosines
from icpe.settings import setting
from icpe.train.batch import Batch, Negatives

_STEEPEST = 30.0  # largest exponent of the correction of a negative; such a negative has no weight any more


class PopDCLSettings(LossSettings):
    """Settings of :class:`PopDCL`."""

    loss: ClassVar[Literal["softmax"]] = "softmax"  # type: ignore[misc]  # the only loss, hence not a setting
    negatives: ClassVar[int] = 0  # type: ignore[misc]  # the batch itself provides them
    temperature: float = setting(0.2, "Temperature τ of the softmax.", above=0.0, search=(0.1, 0.15, 0.2, 0.25, 0.3))
    positive_strength: float = setting(
        1.0,
        "Factor of the correction of positives, which grows with the popularity of the item; public code: 1.",
        least=0.0,
        search=(0.0, 0.5, 1.0),
    )
    negative_strength: float = setting(
        1.0,
        "Factor of the correction of negatives, which grows with the popularity of a user's items; public code: 1.",
        least=0.0,
        search=(0.0, 0.1, 1.0),
    )


class PopDCL(SampledLoss):
    """Popularity-aware debiased contrastive loss (Liu et al. 2023), on cosines.

    The positives of all other rows of a batch are the negatives of a row. With f = cos θ, n the training counts, R_u
    the items of a user and N the number of training pairs, the scores are corrected as follows:

    * f_ui − σ(mean_j f_uj · n_i / Σ_{k in R_u} n_k), so that a popular item must be learned more firmly;
    * f_uj − λ_u·e^((f_ui − f_uj)/τ) with λ_u = w/(1 − w) and w = (Σ_{k in R_u} n_k − 1) / (N − 1), the probability that
      a negative from the batch is one of the user's items.

    The loss is the softmax of the corrected scores / τ. The backbone's score must be an inner product (MF, LightGCN).

    Example:
        >>> from icpe.backbones import MF
        >>> PopDCL(MF(), temperature=0.1).settings.positive_strength
        1.0
    """

    name: ClassVar[str] = "popdcl"
    Settings = PopDCLSettings
    settings: PopDCLSettings
    counts: Tensor
    owned: Tensor
    odds: Tensor

    @property
    def negatives(self) -> Negatives:
        """None are sampled."""
        return Negatives(0, shared=True)

    def build(self, train: Interactions, rng: np.random.Generator) -> None:
        """Create the backbone's parameters and the popularity of items and of what each user has used."""
        require_inner_product(self, "the scores of all pairs of a batch")
        super().build(train, rng)
        counts = train.item_counts.astype(np.float64)
        owned = np.bincount(train.user, counts[train.item], len(train.users))
        # A user with nearly all interactions of a tiny log would have infinite odds.
        probability = np.clip((owned - 1) / max(len(train) - 1, 1), 0, 0.99)
        values = {"counts": counts, "owned": np.maximum(owned, 1), "odds": probability / (1 - probability)}
        for name, value in values.items():
            self.register_buffer(name, torch.from_numpy(value.astype(np.float32)), persistent=False)

    def loss(self, batch: Batch, rng: torch.Generator | None = None) -> Tensor:
        """Return the softmax of the corrected scores plus the L2 term."""
        users, items = self.backbone.rows(batch.users, batch.items, rng)
        of_scores = partial(
            corrected_softmax,
            part=(self.counts[batch.items] / self.owned[batch.users]).to(users),
            strength=self.settings.positive_strength,
            odds=(self.settings.negative_strength * self.odds[batch.users]).to(users),
            temperature=self.temperature,
        )
        with_penalty = self.backbone.trains_rows  # the rows at hand are then the trainable ones
        loss = loss_on_cosines(users, items, of_scores, self.reg if with_penalty else 0.0, in_batch=True)
        return loss if with_penalty else loss + self.penalty(batch)


def corrected_softmax(
    positive: Tensor, scores: Tensor, part: Tensor, strength: float, odds: Tensor, temperature: float
) -> tuple[float, Tensor, Tensor]:
    """Return the loss of scores [b] and [b, b], and its gradients with respect to both. ``scores`` is overwritten.

    Args:
        positive: scores of the positives.
        scores: scores of each row's user for the positive of each row. The diagonal plays no role.
        part: part of each row's item in the popularity of all items of its user, [b].
        strength: factor of the correction of positives.
        odds: λ of each row's user times the factor of the correction of negatives, [b].
        temperature: τ.
    """
    others = len(positive) - 1
    if others == 0:  # without negatives there is nothing to learn
        return 0.0, torch.zeros_like(positive), torch.zeros_like(scores)
    scores.diagonal().zero_()
    level = torch.sigmoid(scores.sum(1) / others * part)
    steep = ((positive[:, None] - scores) / temperature).clamp_(max=_STEEPEST).exp_().mul_(odds[:, None])
    logits = scores.sub_(steep).sub_((positive - strength * level)[:, None]).div_(temperature)
    logits.diagonal().fill_(-torch.inf)
    sums, chance = log_of_sum(logits)
    total = F.softplus(sums)
    chance.mul_((sums - total).exp()[:, None])
    # The scores of negatives and of the positive also affect the loss through the corrections.
    through, missed = steep.mul_(chance).div_(temperature), chance.sum(1)
    weight = 1 / (temperature * len(positive))
    to_positive = -weight * (missed + through.sum(1))
    to_scores = chance.add_(through).add_((strength * missed * level * (1 - level) * part / others)[:, None])
    to_scores.mul_(weight).diagonal().zero_()
    return float(total.mean()), to_positive, to_scores
