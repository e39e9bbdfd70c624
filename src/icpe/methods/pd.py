"""Popularity multiplied into the score in training, and left out or put back in ranking."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from icpe.backbones.base import Backbone
from icpe.data.interactions import Interactions
from icpe.ranking.tables import DerivedScores, ScoreTable
from icpe.train.method import Batch, Method, Negatives, check_count, check_number
from icpe.types import FloatArray, IntArray


class PD(Method):
    """Popularity-bias deconfounding and adjusting (Zhang et al. 2021).

    With f = ELU(s) + 1, which is above 0, and m_i = ((n_i + 1) / (max n + 1))^γ, training minimises

        mean of (1/K)·Σ_k softplus(−(f_ui·m_i − f_uj·m_j))

    Ranking is by s, which orders items as f does (PD), or by f_ui·m̃_i, where m̃_i is the same ratio to the power
    ``inject`` (PDA).

    Args:
        backbone: the model to train.
        negatives: K, for each positive.
        gamma: γ.
        inject: how much popularity ranking puts back: 0 is PD, γ the popularity of training. It may be changed after
            training.
        reg: λ of the L2 term; by default the backbone's.

    Raises:
        ConfigError: a setting is out of its range.

    Example:
        >>> from icpe.backbones import MF
        >>> PD(MF()).settings()["gamma"]
        0.1
    """

    name: ClassVar[str] = "pd"
    serving: ClassVar[tuple[str, ...]] = ("inject",)
    search: ClassVar[dict[str, tuple[Any, ...]]] = {"gamma": (0.02, 0.05, 0.1, 0.2, 0.25)}
    log_share: Tensor
    factor: Tensor

    def __init__(
        self,
        backbone: Backbone,
        negatives: int = 1,
        gamma: float = 0.1,
        inject: float = 0.0,
        reg: float | None = None,
    ) -> None:
        super().__init__(backbone, reg)
        check_count("negatives", negatives)
        check_number("gamma", gamma, least=0.0)
        check_number("inject", inject, least=0.0)
        self.negative_count, self.gamma, self.inject = negatives, gamma, inject

    def settings(self) -> dict[str, Any]:
        """Constructor arguments but the backbone."""
        return {"negatives": self.negative_count, "gamma": self.gamma, "inject": self.inject, "reg": self.reg}

    @property
    def negatives(self) -> Negatives:
        """One or more for each positive."""
        return Negatives(self.negative_count)

    def build(self, train: Interactions, rng: Any) -> None:
        """The backbone, and the popularity of items."""
        super().build(train, rng)
        counts = train.item_counts.astype(np.float64) + 1
        self.register_buffer("log_share", torch.from_numpy(np.log(counts / counts.max()).astype(np.float32)))
        self.register_buffer("factor", torch.exp(self.gamma * self.log_share))

    def loss(self, batch: Batch, rng: torch.Generator | None = None) -> Tensor:
        """The pairwise loss of scores times popularity, plus the L2 term."""
        wanted = torch.cat([batch.items, batch.negatives.reshape(-1)])
        users, both = self.backbone.rows(batch.users, wanted, rng)
        items, drawn = both[: len(users)], both[len(users) :]
        positive = self.backbone.score(users, items)
        negative = self.backbone.score(users[:, None], drawn.view(*batch.negatives.shape, -1))
        positive = (F.elu(positive) + 1) * self.factor[batch.items]
        negative = (F.elu(negative) + 1) * self.factor[batch.negatives]
        return F.softplus(negative - positive[:, None]).mean() + self.penalty(batch, (users, items, drawn))

    def own_scores(self) -> ScoreTable:
        """s; or log f, to which popularity can be added, where it is put back."""
        table = super().own_scores()
        return _LogMatch(table) if self.inject else table

    def item_bias(self) -> Tensor | None:
        """The logarithm of m̃, where popularity is put back."""
        return self.inject * self.log_share if self.inject else None

    def score_user(self, user: Tensor, items: Tensor) -> Tensor:
        """As :meth:`own_scores`, for one user."""
        scores = self.backbone.score(user, items)
        return torch.where(scores < 0, scores, torch.log1p(scores.clamp(min=0))) if self.inject else scores

    def user_loss(self, positive: Tensor, negative: Tensor) -> Tensor:
        """The pairwise loss of f, without popularity, with all other items as negatives."""
        positive, negative = (one.exp() if self.inject else F.elu(one) + 1 for one in (positive, negative))
        return F.softplus(negative - positive[:, None]).mean()


@dataclass(frozen=True, eq=False)
class _LogMatch(DerivedScores):
    """log(ELU(s) + 1) of a table of s: s itself below 0, and log(1 + s) above."""

    def block(self, users: IntArray, start: int, stop: int) -> FloatArray:
        scores = self.table.block(users, start, stop)
        return np.where(scores < 0, scores, np.log1p(np.maximum(scores, 0)))
