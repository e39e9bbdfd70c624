"""Popularity put into the score in training and left out in ranking, with a fixed strength."""

from typing import Any, ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from icpe.backbones.base import Backbone
from icpe.data.interactions import Interactions
from icpe.methods._parts.log_popularity import log_popularity
from icpe.methods.normal import Normal
from icpe.train.method import Batch, check_choice, check_number


class LogitAdjustment(Normal):
    """Logit adjustment (Menon et al. 2021): the loss sees s_ui + κ·log(training count), ranking sees s_ui.

    What popularity explains need not be learned by the model. For softmax the score is cosine / temperature.

    Args:
        backbone: the model to train.
        loss: ``"softmax"`` or ``"bce"``.
        negatives: as of :class:`Normal`.
        temperature: of the softmax.
        kappa: strength (κ).
        reg: λ of the L2 term; by default the backbone's.

    Example:
        >>> from icpe.backbones import MF
        >>> LogitAdjustment(MF()).settings()["kappa"]
        0.85
    """

    name: ClassVar[str] = "logit_adjustment"
    label: ClassVar[str] = "Log-popularity offset"
    serving: ClassVar[tuple[str, ...]] = ()
    search: ClassVar[dict[str, tuple[Any, ...]]] = {
        "kappa": (0.3, 0.5, 0.6, 0.7, 0.85, 1.0),
        "temperature": (0.15, 0.2, 0.22, 0.25, 0.3),
    }
    log_popularity: Tensor

    def __init__(
        self,
        backbone: Backbone,
        loss: Literal["softmax", "bce"] = "softmax",
        negatives: int | None = None,
        temperature: float = 0.22,
        kappa: float = 0.85,
        reg: float | None = None,
    ) -> None:
        check_choice("loss", loss, ("softmax", "bce"))
        super().__init__(backbone, loss, negatives, temperature, reg=reg)
        check_number("kappa", kappa, least=0.0)
        self.kappa = kappa

    def settings(self) -> dict[str, Any]:
        """Constructor arguments but the backbone."""
        settings = super().settings()
        del settings["neg_weight"], settings["length"]
        return {**settings, "kappa": self.kappa}

    def build(self, train: Interactions, rng: Any) -> None:
        """The backbone, and the popularity of items."""
        super().build(train, rng)
        self.register_buffer("log_popularity", log_popularity(train))

    def loss(self, batch: Batch, rng: torch.Generator | None = None) -> Tensor:
        """The loss of adjusted scores plus the L2 term."""
        wanted = torch.cat([batch.items, batch.negatives.reshape(-1)])
        users, both = self.backbone.rows(batch.users, wanted, rng)
        offset = self.kappa * self.log_popularity[wanted]
        vectors = self.backbone.vectors(users, both)
        if vectors is not None:
            return self._loss_of_vectors(batch, *vectors, vectors[0] is users and vectors[1] is both, offset=offset)
        count, sharp = len(users), 1 / self.temperature if self.loss_kind == "softmax" else 1.0
        negatives = both[count:].view(*batch.negatives.shape, -1)
        positive = sharp * self.backbone.score(users, both[:count]) + offset[:count]
        negative = sharp * self.backbone.score(users[:, None], negatives) + offset[count:].view(batch.negatives.shape)
        if self.loss_kind == "bce":
            loss = F.softplus(-positive).mean() + F.softplus(negative).mean()
        else:
            loss = (torch.logaddexp(positive, torch.logsumexp(negative, 1)) - positive).mean()
        return loss + self.penalty(batch, (users, both[:count], both[count:]))
