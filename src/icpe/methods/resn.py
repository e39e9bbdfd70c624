"""ReSN: a penalty on the leading singular value of the scores, in which popularity hides."""

from typing import ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from icpe.data.interactions import Interactions
from icpe.methods._parts.distinct import first_places
from icpe.methods._parts.inner_product import require_inner_product
from icpe.methods._parts.sampled_loss import Loss, LossSettings, SampledLoss
from icpe.settings import setting
from icpe.train.batch import Batch

_LEAST = 1e-12  # smallest length by which a vector is divided


class ReSNSettings(LossSettings):
    """Settings of :class:`ReSN`."""

    loss: Loss = setting(
        "softmax",
        "Loss: binary cross-entropy (bce), Bayesian personalised ranking (bpr), or softmax over cosine / temperature.",
        search=("bce", "softmax"),
    )
    temperature: float = setting(0.2, "Temperature τ of the softmax.", above=0.0, search=(0.15, 0.2, 0.25))
    strength: float = setting(
        0.1,
        "Weight β of the squared leading singular value; 0 is training without debiasing.",
        least=0.0,
        search=(0.01, 0.03, 0.1, 0.3, 1.0),
    )


class ReSN(SampledLoss):
    """Regulating with the spectral norm (Lin et al. 2025).

    The leading right singular vector of the matrix of scores is close to the popularity of the items, so a large
    leading singular value means that popularity dominates the scores. Training adds to its loss

        β·σ² / (number of users · number of items),    σ² = ‖Y q‖²

    where Y are the training scores of the users of the batch for the items of the batch, each counted once, and q is
    the unit vector in the direction of Yᵀ1, one step of the power method, which is a constant for the gradient. The
    backbone's score must be an inner product (MF, LightGCN).

    Example:
        >>> from icpe.backbones import MF
        >>> ReSN(MF(), loss="bpr").settings.strength
        0.1
    """

    name: ClassVar[str] = "resn"
    Settings = ReSNSettings
    settings: ReSNSettings

    def build(self, train: Interactions, rng: np.random.Generator) -> None:
        """Create the backbone's parameters."""
        require_inner_product(self, "a matrix of scores of low rank")
        super().build(train, rng)

    def loss(self, batch: Batch, rng: torch.Generator | None = None) -> Tensor:
        """Return the loss plus the L2 term and the penalty on the leading singular value."""
        wanted = torch.cat([batch.items, batch.negatives.reshape(-1)])
        users, items = self.backbone.rows(batch.users, wanted, rng)
        loss = self.product_loss(batch, users, items)
        if self.settings.strength == 0:
            return loss
        distinct_users = users[first_places(batch.users, self.backbone.users)]
        distinct_items = items[first_places(wanted, self.backbone.items)]
        if self.ranks_by_cosine:
            distinct_users = F.normalize(distinct_users, dim=-1) / self.temperature
            distinct_items = F.normalize(distinct_items, dim=-1)
        size = len(distinct_users) * len(distinct_items)
        return loss + self.settings.strength / size * squared_spectral_norm(distinct_users, distinct_items)


def squared_spectral_norm(users: Tensor, items: Tensor) -> Tensor:
    """Return an estimate of the squared leading singular value of Y = users · itemsᵀ that is never too large.

    One step of the power method from the vector of ones gives the direction q = Yᵀ1 / ‖Yᵀ1‖, and the estimate is
    ‖Y q‖². Y is never computed. The direction is a constant for the gradient.

    Args:
        users: rows of the users, [n, d].
        items: rows of the items, [m, d].

    Example:
        >>> float(squared_spectral_norm(torch.tensor([[1.0], [2.0]]), torch.tensor([[3.0], [0.0]])))
        45.0
    """
    with torch.no_grad():
        popular = items @ users.sum(0)
        direction = popular / popular.norm().clamp_min(_LEAST)
    along: Tensor = users @ (direction @ items)
    return along.square().sum()
