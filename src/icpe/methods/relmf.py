"""Pairs weighed so that exposure cancels out of the pointwise loss."""

from typing import Any, ClassVar, Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from icpe.backbones.base import Backbone
from icpe.data.interactions import Interactions
from icpe.methods.ips import exposure
from icpe.methods.ubpr import marked
from icpe.train.drawing import Drawn, SeenPairs
from icpe.train.method import Batch, Method, Negatives, check_choice, check_count, check_number


class RelMF(Method):
    """Relevance matrix factorisation (Saito et al. 2020).

    A click is exposure times relevance, and an item is exposed with θ_i = max((n_i / max n)^γ, ε). Positives (Y = 1)
    and items drawn from all, used ones too, cost

        (Y/θ)·δ₁ + (1 − Y/θ)·δ₀

    which in the mean over exposure is the loss of relevance itself.

    * ``loss="squared"``: δ₁ = (1 − σ(s))², δ₀ = σ(s)².
    * ``loss="log"``: δ₁ = softplus(−s), δ₀ = softplus(s). A positive would then pay for scores that grow without end,
      since 1 − 1/θ is negative; so the loss of a pair is never less than 0.

    Args:
        backbone: the model to train; any, whatever the name says.
        loss: see above.
        negatives: K, items drawn for each positive; their loss is a mean.
        gamma: γ.
        eps: ε, the least exposure.
        reg: λ of the L2 term; by default the backbone's.

    Raises:
        ConfigError: a setting is out of its range.

    Example:
        >>> from icpe.backbones import MF
        >>> RelMF(MF()).settings()["eps"]
        0.01
    """

    name: ClassVar[str] = "relmf"
    label: ClassVar[str] = "Rel-MF"
    search: ClassVar[dict[str, tuple[Any, ...]]] = {
        "gamma": (0.3, 0.5, 0.7, 0.8, 1.0),
        "eps": (0.001, 0.01, 0.05, 0.1),
    }
    inverse: Tensor

    def __init__(
        self,
        backbone: Backbone,
        loss: Literal["squared", "log"] = "squared",
        negatives: int = 1,
        gamma: float = 0.5,
        eps: float = 0.01,
        reg: float | None = None,
    ) -> None:
        super().__init__(backbone, reg)
        check_choice("loss", loss, ("squared", "log"))
        check_count("negatives", negatives)
        check_number("gamma", gamma, least=0.0)
        check_number("eps", eps, least=0.0, most=1.0)
        self.loss_kind, self.negative_count, self.gamma, self.eps = loss, negatives, gamma, eps

    def settings(self) -> dict[str, Any]:
        """Constructor arguments but the backbone."""
        return {
            "loss": self.loss_kind,
            "negatives": self.negative_count,
            "gamma": self.gamma,
            "eps": self.eps,
            "reg": self.reg,
        }

    @property
    def negatives(self) -> Negatives:
        """For each positive, from all items."""
        return Negatives(self.negative_count, seen=True)

    def build(self, train: Interactions, rng: Any) -> None:
        """The backbone, 1/θ of items, and who has used what."""
        super().build(train, rng)
        inverse = 1 / np.maximum(exposure(train.item_counts, self.gamma), self.eps)
        self.register_buffer("inverse", torch.from_numpy(inverse.astype(np.float32)))
        self._seen = SeenPairs(train)

    def draw(self, drawn: Drawn, epoch: int, rng: np.random.Generator) -> Drawn:
        """Mark drawn items that their user has used."""
        return marked(drawn, self._seen)

    def loss(self, batch: Batch, rng: torch.Generator | None = None) -> Tensor:
        """The mean loss of positives, plus that of drawn items, plus the L2 term."""
        assert batch.marks is not None
        wanted = torch.cat([batch.items, batch.negatives.reshape(-1)])
        users, both = self.backbone.rows(batch.users, wanted, rng)
        items, drawn = both[: len(users)], both[len(users) :]
        positive = self.backbone.score(users, items)
        negative = self.backbone.score(users[:, None], drawn.view(*batch.negatives.shape, -1))
        loss = self._each(positive, self.inverse[batch.items]).mean()
        loss = loss + self._each(negative, batch.marks * self.inverse[batch.negatives]).mean()
        return loss + self.penalty(batch, (users, items, drawn))

    def user_loss(self, positive: Tensor, negative: Tensor) -> Tensor:
        """The training loss with all other items as negatives, and without exposure."""
        one = torch.ones((), dtype=positive.dtype, device=positive.device)
        return self._each(positive, one).mean() + self._each(negative, 0 * one).mean()

    def _each(self, score: Tensor, target: Tensor) -> Tensor:
        """The loss of each pair, from its score and Y/θ; both forms are multiplied out."""
        if self.loss_kind == "log":
            return (F.softplus(-score) + (1 - target) * score).clamp(min=0)
        chance = torch.sigmoid(score)
        return target + chance * (chance - 2 * target)
