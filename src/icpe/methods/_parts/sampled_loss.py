"""The base of methods that minimise binary cross-entropy, BPR or a softmax over sampled negatives."""

from typing import Any, ClassVar, Literal, Self

import torch
import torch.nn.functional as F
from torch import Tensor

from icpe.backbones.base import Backbone
from icpe.backbones.blocks import worth_dividing
from icpe.backbones.rows import RowParameter
from icpe.methods._parts.closed_form import bce_on_rows, bpr_on_rows, softmax_on_rows
from icpe.methods._parts.pair_blocks import loss_in_blocks
from icpe.methods.base import Method
from icpe.ranking.tables import DotScores, ScoreTable, to_numpy
from icpe.settings import setting
from icpe.train.abilities import FoldIn
from icpe.train.batch import Batch, Negatives
from icpe.train.method import MethodSettings

Loss = Literal["bce", "bpr", "softmax"]


class LossSettings(MethodSettings):
    """Settings of a loss over sampled negatives."""

    loss: Loss = setting(
        "bce",
        "Loss: binary cross-entropy (bce), Bayesian personalised ranking (bpr), or softmax over cosine / temperature.",
    )
    negatives: int | None = setting(
        None,
        "Negatives for each positive, or shared by the batch for softmax. Default: 1; for softmax 256, or 16 where the "
        "score is not an inner product.",
        least=1,
    )
    temperature: float = setting(0.2, "Temperature τ of the softmax.", above=0.0)

    def completed(self, backbone: Backbone) -> Self:
        """Return the settings with the number of negatives filled in."""
        settings = super().completed(backbone)
        if settings.negatives is not None:
            return settings
        # Without inner products every score costs a pass through the backbone's layers.
        return settings.replace(negatives=1 if self.loss != "softmax" else 256 if backbone.inner_product else 16)


class SampledLoss(FoldIn, Method):
    """Training on sampled negatives; subclasses change weights, offsets or the sampling.

    * ``bce`` (paper Eq. 1): mean of softplus(−s_ui) + (1/K)·Σ_k softplus(s_uj), with K negatives per positive.
    * ``bpr``: mean of (1/K)·Σ_k softplus(−(s_ui − s_uj)).
    * ``softmax``: cross-entropy of the positive against negatives that the batch shares, on cosine / temperature. Items
      are then ranked by the cosine. A backbone whose score is not an inner product (NeuMF) uses its logit instead.
    """

    Settings: ClassVar[type[LossSettings]] = LossSettings
    settings: LossSettings

    @property
    def neg_weight(self) -> float:
        """Factor of the negative term of bce."""
        return 1.0

    @property
    def temperature(self) -> float:
        """Temperature τ of the softmax at this time."""
        return self.settings.temperature

    @property
    def norm_power(self) -> float:
        """Power of an item's norm by which ranking multiplies the cosine."""
        return 0.0

    @property
    def negatives(self) -> Negatives:
        """One or more for each positive; shared by the batch for softmax."""
        return Negatives(self.settings.negatives or 1, shared=self.settings.loss == "softmax")

    def loss(self, batch: Batch, rng: torch.Generator | None = None) -> Tensor:
        """Return the loss plus the L2 term."""
        wanted = torch.cat([batch.items, batch.negatives.reshape(-1)])
        users, items = self.backbone.rows(batch.users, wanted, rng)
        if self.backbone.inner_product:
            return self.product_loss(batch, users, items)

        def of_rows(users: Tensor, positives: Tensor, negatives: Tensor) -> Tensor:
            return self._logit_loss(users, positives, negatives) + self.penalty(batch, (users, positives, negatives))

        if self.backbone.pairs_alone and self.backbone.trains_rows and worth_dividing(users):
            parameters = (one for one in self.backbone.parameters() if one.requires_grad)
            layers = [one for one in parameters if not isinstance(one, RowParameter)]
            return loss_in_blocks(of_rows, users, items, self.negatives.shared, layers)
        positives, negatives = torch.split(items, [len(users), len(items) - len(users)])
        return of_rows(users, positives, negatives.view(*batch.negatives.shape, -1))

    def product_loss(self, batch: Batch, users: Tensor, items: Tensor, scale: float = 1.0, **extras: Any) -> Tensor:
        """Return the whole loss, the L2 term included, where scores are inner products.

        Args:
            batch: the codes.
            users: representations of the users.
            items: representations of the positives and then of the negatives.
            scale: factor of the scores.
            extras: ``offset``, ``weight`` and ``user_weight`` of :mod:`icpe.methods._parts.closed_form`.
        """
        # Where the rows at hand are the trainable ones, the closed form includes the L2 term.
        with_penalty = self.backbone.trains_rows
        reg, settings = self.reg if with_penalty else 0.0, self.settings
        if settings.loss == "softmax":
            loss = softmax_on_rows(users, items, self.temperature / scale, reg=reg, **extras)
        elif settings.loss == "bpr":
            loss = bpr_on_rows(users, items, scale, reg=reg, **extras)
        else:
            loss = bce_on_rows(users, items, self.neg_weight, scale, reg=reg, **extras)
        return loss if with_penalty else loss + self.penalty(batch)

    def _logit_loss(self, users: Tensor, items: Tensor, negatives: Tensor) -> Tensor:
        positive = self.backbone.score(users, items)
        negative = self.backbone.score(users[:, None], negatives)
        if self.settings.loss == "bpr":
            return F.softplus(negative - positive[:, None]).mean()
        if self.settings.loss == "bce":
            return F.softplus(-positive).mean() + self.neg_weight * F.softplus(negative).mean()
        logits = torch.cat([positive[:, None], negative], dim=1) / self.temperature
        return (torch.logsumexp(logits, dim=1) - logits[:, 0]).mean()

    @property
    def ranks_by_cosine(self) -> bool:
        """Whether items are ranked by the cosine, as the softmax trains it."""
        return self.settings.loss == "softmax" and self.backbone.inner_product

    @property
    def score_unit(self) -> float:
        """The ranking score that corresponds to 1 in the unit of training: τ for cosines, 1 for logits."""
        return self.temperature if self.settings.loss == "softmax" else 1.0

    def scores(self) -> ScoreTable:
        """Return logits, or cosines where the softmax was trained on them."""
        users, items = self.backbone.reps()
        if not self.ranks_by_cosine:
            return self.backbone.scores(users, items)
        return DotScores(to_numpy(F.normalize(users, dim=-1)), to_numpy(self._item_vectors(items)))

    def score_user(self, user: Tensor, items: Tensor) -> Tensor:
        """Return logits or cosines of one user."""
        if not self.ranks_by_cosine:
            return self.backbone.score(user, items)
        return self._item_vectors(items) @ F.normalize(user[None], dim=-1)[0]

    def user_loss(self, positive: Tensor, negative: Tensor) -> Tensor:
        """Return the training loss with all other items as negatives."""
        if self.settings.loss == "bpr":
            return F.softplus(negative - positive[:, None]).mean()
        if self.settings.loss == "softmax":
            positive, others = positive / self.temperature, negative / self.temperature
            return (torch.logaddexp(positive, torch.logsumexp(others, 0)) - positive).mean()
        return F.softplus(-positive).mean() + self.neg_weight * F.softplus(negative).mean()

    def _item_vectors(self, items: Tensor) -> Tensor:
        """Items as unit vectors, times a power of their norm."""
        units = F.normalize(items, dim=-1)
        return units * items.norm(dim=-1, keepdim=True) ** self.norm_power if self.norm_power else units
