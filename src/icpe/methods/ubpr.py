"""Pairs of items weighed so that exposure cancels out of the pairwise loss."""

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from icpe.backbones.base import Backbone
from icpe.data.interactions import Interactions
from icpe.methods.ips import exposure
from icpe.methods.normal import Normal
from icpe.train.drawing import Drawn, SeenPairs
from icpe.train.method import Batch, Negatives, check_number


class UBPR(Normal):
    """Unbiased Bayesian personalised ranking (Saito 2020).

    A click is exposure times relevance, and an item is exposed with θ_i = (n_i / max n)^γ. The second item of a pair is
    drawn from all items, used ones too; Y_uj says whether the user has used it:

        mean of max(−β, (1/θ_i)·(1 − Y_uj/θ_j)·softplus(−(s_ui − s_uj)))

    Args:
        backbone: the model to train.
        negatives: K, second items for each positive; the loss is their mean.
        gamma: γ.
        beta: β, how far below 0 the loss of a pair may fall. Beyond it a pair has no gradient: with 0, all pairs of two
            used items drop out.
        reg: λ of the L2 term; by default the backbone's.

    Raises:
        ConfigError: a setting is out of its range.

    Example:
        >>> from icpe.backbones import MF
        >>> UBPR(MF()).settings()["gamma"]
        0.5
    """

    name: ClassVar[str] = "ubpr"
    serving: ClassVar[tuple[str, ...]] = ()
    search: ClassVar[dict[str, tuple[Any, ...]]] = {"gamma": (0.3, 0.5, 0.7, 0.8, 1.0), "beta": (0.0, 0.01, 0.1)}
    inverse: Tensor

    def __init__(
        self,
        backbone: Backbone,
        negatives: int = 1,
        gamma: float = 0.5,
        beta: float = 0.0,
        reg: float | None = None,
    ) -> None:
        super().__init__(backbone, "bpr", negatives, reg=reg)
        check_number("gamma", gamma, least=0.0)
        check_number("beta", beta, least=0.0)
        self.gamma, self.beta = gamma, beta

    def settings(self) -> dict[str, Any]:
        """Constructor arguments but the backbone."""
        return {"negatives": self.negative_count, "gamma": self.gamma, "beta": self.beta, "reg": self.reg}

    @property
    def negatives(self) -> Negatives:
        """For each positive, from all items."""
        return Negatives(self.negative_count, seen=True)

    def build(self, train: Interactions, rng: Any) -> None:
        """The backbone, 1/θ of items, and who has used what."""
        super().build(train, rng)
        inverse = 1 / exposure(train.item_counts, self.gamma)
        self.register_buffer("inverse", torch.from_numpy(inverse.astype(np.float32)))
        self._seen = SeenPairs(train)

    def draw(self, drawn: Drawn, epoch: int, rng: np.random.Generator) -> Drawn:
        """Mark second items that their user has used."""
        return marked(drawn, self._seen)

    def loss(self, batch: Batch, rng: torch.Generator | None = None) -> Tensor:
        """The unbiased pairwise loss, cut off at −β for each pair, plus the L2 term."""
        wanted = torch.cat([batch.items, batch.negatives.reshape(-1)])
        users, both = self.backbone.rows(batch.users, wanted, rng)
        weight = self._weight(batch)
        vectors = self.backbone.vectors(users, both)
        if vectors is None:
            apart = self._apart(batch, users, both)
            loss = (weight * F.softplus(apart)).clamp(min=-self.beta).mean()
            return loss + self.penalty(batch, (users, both[: len(users)], both[len(users) :]))
        # Where a pair is cut off it weighs nothing, and β is what remains of its value.
        if self.beta == 0:
            weight, below = weight.clamp(min=0), 0.0
        else:
            with torch.no_grad():
                cut = weight * F.softplus(self._apart(batch, users, both)) < -self.beta
            weight, below = weight.masked_fill(cut, 0), self.beta * float(cut.to(weight.dtype).mean())
        ego = vectors[0] is users and vectors[1] is both
        return self._loss_of_vectors(batch, *self._in_pairs(*vectors), ego, weight=weight.reshape(-1)) - below

    def _weight(self, batch: Batch) -> Tensor:
        """(1/θ_i)·(1 − Y_uj/θ_j), [batch, K]."""
        assert batch.marks is not None
        return self.inverse[batch.items][:, None] * (1 - batch.marks * self.inverse[batch.negatives])

    def _apart(self, batch: Batch, users: Tensor, both: Tensor) -> Tensor:
        """s_uj − s_ui, [batch, K]."""
        drawn = both[len(users) :].view(*batch.negatives.shape, -1)
        return self.backbone.score(users[:, None], drawn) - self.backbone.score(users, both[: len(users)])[:, None]

    def _in_pairs(self, users: Tensor, both: Tensor) -> tuple[Tensor, Tensor]:
        """Users and positives once for each of their pairs, since each pair has a weight of its own."""
        if self.negative_count == 1:
            return users, both
        items, drawn = both[: len(users)], both[len(users) :]
        count = self.negative_count
        return users.repeat_interleave(count, 0), torch.cat([items.repeat_interleave(count, 0), drawn])


def marked(drawn: Drawn, seen: SeenPairs) -> Drawn:
    """The same with marks, int64 [batch, K]: 1 where the user of a row has used the item drawn, else 0."""
    return replace(drawn, marks=seen.contain(drawn.users[:, None], drawn.negatives).astype(np.int64))
