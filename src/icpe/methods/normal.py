"""Training without debiasing: the baseline everything is compared with."""

from typing import Any, ClassVar, get_args

import torch
import torch.nn.functional as F
from torch import Tensor

from icpe.backbones.base import Backbone
from icpe.methods._parts.closed_form import bce_on_rows, bpr_on_rows, softmax_on_rows
from icpe.ranking.tables import DotScores, ScoreTable, to_numpy
from icpe.train.method import Batch, Loss, Method, Negatives, check_choice, check_count, check_number


class Normal(Method):
    """All interactions weigh the same.

    * ``loss="bce"`` (paper Eq. 1): mean of softplus(−s_ui) + (1/K)·Σ_k softplus(s_uj), K negatives per positive.
    * ``loss="bpr"``: mean of (1/K)·Σ_k softplus(−(s_ui − s_uj)).
    * ``loss="softmax"``: cross-entropy of the positive against negatives shared by the batch, on cosine / temperature.
      Items are then ranked by the cosine. A backbone whose score is no inner product (NeuMF) uses its logit instead.

    Args:
        backbone: the model to train.
        loss: see above.
        negatives: K, or the number of shared negatives; by default 1, for softmax 256, or 16 where scores are no inner
            products and each costs a pass through the backbone's layers.
        temperature: of the softmax.
        neg_weight: factor of the negative term of bce.
        length: for softmax, the power of an item's length by which ranking multiplies the cosine. Popular items have
            long representations, most of all with propagation: above 0 they come back. It may be changed after
            training.
        reg: λ of the L2 term; by default the backbone's.

    Example:
        >>> from icpe.backbones import MF
        >>> Normal(MF(dim=16), loss="bpr").settings()["negatives"]
        1
    """

    name: ClassVar[str] = "normal"
    serving: ClassVar[tuple[str, ...]] = ("length",)
    search: ClassVar[dict[str, tuple[Any, ...]]] = {"negatives": (1, 4)}

    def __init__(
        self,
        backbone: Backbone,
        loss: Loss = "bce",
        negatives: int | None = None,
        temperature: float = 0.2,
        neg_weight: float = 1.0,
        reg: float | None = None,
        length: float = 0.0,
    ) -> None:
        super().__init__(backbone, reg)
        check_choice("loss", loss, get_args(Loss))
        self.loss_kind: Loss = loss
        self.negative_count = _usual_count(backbone, loss) if negatives is None else negatives
        check_count("negatives", self.negative_count)
        self.temperature = temperature
        check_number("temperature", temperature, least=0.0, open_left=True)
        self.neg_weight = neg_weight
        check_number("neg_weight", neg_weight, least=0.0)
        self.length = length
        check_number("length", length, least=0.0)

    def settings(self) -> dict[str, Any]:
        """Constructor arguments but the backbone."""
        return {
            "loss": self.loss_kind,
            "negatives": self.negative_count,
            "temperature": self.temperature,
            "neg_weight": self.neg_weight,
            "reg": self.reg,
            "length": self.length,
        }

    @property
    def negatives(self) -> Negatives:
        """One or more for each positive; shared by the batch for softmax."""
        return Negatives(self.negative_count, shared=self.loss_kind == "softmax")

    def loss(self, batch: Batch, rng: torch.Generator | None = None) -> Tensor:
        """The loss of the chosen kind plus the L2 term."""
        wanted = torch.cat([batch.items, batch.negatives.reshape(-1)])
        users, both = self.backbone.rows(batch.users, wanted, rng)
        vectors = self.backbone.vectors(users, both)
        if vectors is None:
            items, drawn = torch.split(both, [len(users), len(both) - len(users)])
            loss = self._loss_of_logits(users, items, drawn.view(*batch.negatives.shape, -1))
            return loss + self.penalty(batch, (users, items, drawn))
        return self._loss_of_vectors(batch, *vectors, ego=vectors[0] is users and vectors[1] is both)

    def _loss_of_vectors(
        self, batch: Batch, users: Tensor, both: Tensor, ego: bool, scale: float = 1.0, **extras: Any
    ) -> Tensor:
        """The whole loss for a backbone with inner products.

        Args:
            batch: the codes.
            users: vectors of the users.
            both: vectors of the positives and then of the negatives.
            ego: whether they are the representations as taken.
            scale: of the scores.
            extras: ``offset``, ``weight`` and ``user_weight`` of :mod:`icpe.methods._parts.closed_form`.
        """
        # Where the rows at hand are the trainable ones, the L2 term is made along with the loss.
        ego = ego and bool(self.backbone.row_tables()[0])
        reg = self.reg if ego else 0.0
        if self.loss_kind == "softmax":
            loss = softmax_on_rows(users, both, self.temperature / scale, reg=reg, **extras)
        elif self.loss_kind == "bpr":
            loss = bpr_on_rows(users, both, scale, reg=reg, **extras)
        else:
            loss = bce_on_rows(users, both, self.neg_weight, scale, reg=reg, **extras)
        return loss if ego else loss + self.penalty(batch)

    def _loss_of_logits(self, users: Tensor, items: Tensor, negatives: Tensor) -> Tensor:
        positive = self.backbone.score(users, items)
        negative = self.backbone.score(users[:, None], negatives)
        if self.loss_kind == "bpr":
            return F.softplus(negative - positive[:, None]).mean()
        if self.loss_kind == "bce":
            return F.softplus(-positive).mean() + self.neg_weight * F.softplus(negative).mean()
        logits = torch.cat([positive[:, None], negative], dim=1) / self.temperature
        return (torch.logsumexp(logits, dim=1) - logits[:, 0]).mean()

    def score_user(self, user: Tensor, items: Tensor) -> Tensor:
        """Logits, or cosines for softmax."""
        vectors = self.backbone.vectors(user[None], items)
        if self.loss_kind != "softmax" or vectors is None:
            return self.backbone.score(user, items)
        return self._ranked(vectors[1]) @ F.normalize(vectors[0], dim=-1)[0]

    def user_loss(self, positive: Tensor, negative: Tensor) -> Tensor:
        """The training loss with all other items as negatives."""
        if self.loss_kind == "bpr":
            return F.softplus(negative - positive[:, None]).mean()
        if self.loss_kind == "softmax":
            others = torch.logsumexp(negative / self.temperature, 0)
            return (torch.logaddexp(positive / self.temperature, others) - positive / self.temperature).mean()
        return F.softplus(-positive).mean() + self.neg_weight * F.softplus(negative).mean()

    def own_scores(self) -> ScoreTable:
        """Logits, or cosines where the softmax was trained on them."""
        users, items = self.backbone.reps()
        vectors = self.backbone.vectors(users, items)
        if self.loss_kind != "softmax" or vectors is None:
            return self.backbone.scores(users, items)
        user, item = F.normalize(vectors[0], dim=-1), self._ranked(vectors[1])
        return DotScores(to_numpy(user), to_numpy(item))

    def _ranked(self, items: Tensor) -> Tensor:
        """Items as unit vectors, times a power of the length they had."""
        units = F.normalize(items, dim=-1)
        return units * items.norm(dim=-1, keepdim=True) ** self.length if self.length else units


def _usual_count(backbone: Backbone, loss: Loss) -> int:
    if loss != "softmax":
        return 1
    return 16 if type(backbone).vectors is Backbone.vectors else 256
