"""PD and PDA: popularity multiplied into the score in training, and left out or put back in ranking."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from icpe.data.interactions import Interactions
from icpe.methods.base import Method
from icpe.ranking.tables import DerivedScores, ScoreTable
from icpe.settings import setting
from icpe.train.abilities import FoldIn, ItemBias
from icpe.train.batch import Batch, Negatives
from icpe.train.method import MethodSettings
from icpe.types import FloatArray, IntArray


class PDSettings(MethodSettings):
    """Settings of :class:`PD`."""

    negatives: int = setting(1, "Number of negatives for each positive (K).", least=1)
    popularity_power: float = setting(
        0.1,
        "Power γ of popularity in the training score.",
        least=0.0,
        search=(0.02, 0.05, 0.1, 0.2, 0.25),
    )
    ranking_power: float = setting(
        0.0,
        "Power of popularity in the ranking score: 0 is PD; above 0 is PDA, and the value of popularity_power puts the "
        "popularity of training back.",
        least=0.0,
        ranking=True,
    )


class PD(ItemBias, FoldIn, Method):
    """Popularity-bias deconfounding and adjusting (Zhang et al. 2021).

    With f = ELU(s) + 1, which is above 0, and m_i = ((n_i + 1) / (max n + 1))^γ, training minimises

        mean of (1/K)·Σ_k softplus(−(f_ui·m_i − f_uj·m_j))

    Items are ranked by s, which orders them as f does (PD), or by f_ui·m̃_i, where m̃_i is the same ratio to the power
    ``ranking_power`` (PDA).

    Example:
        >>> from icpe.backbones import MF
        >>> PD(MF()).settings.popularity_power
        0.1
    """

    name: ClassVar[str] = "pd"
    Settings = PDSettings
    settings: PDSettings
    log_share: Tensor
    factor: Tensor

    @property
    def negatives(self) -> Negatives:
        """One or more for each positive."""
        return Negatives(self.settings.negatives)

    def build(self, train: Interactions, rng: np.random.Generator) -> None:
        """Create the backbone's parameters and the popularity of the items."""
        super().build(train, rng)
        counts = train.item_counts.astype(np.float64) + 1
        self.register_buffer("log_share", torch.from_numpy(np.log(counts / counts.max()).astype(np.float32)))
        self.register_buffer("factor", torch.exp(self.settings.popularity_power * self.log_share))

    def loss(self, batch: Batch, rng: torch.Generator | None = None) -> Tensor:
        """Return the pairwise loss of scores times popularity, plus the L2 term."""
        wanted = torch.cat([batch.items, batch.negatives.reshape(-1)])
        users, items = self.backbone.rows(batch.users, wanted, rng)
        positives, negatives = items[: len(users)], items[len(users) :]
        positive = self.backbone.score(users, positives)
        negative = self.backbone.score(users[:, None], negatives.view(*batch.negatives.shape, -1))
        positive = (F.elu(positive) + 1) * self.factor[batch.items]
        negative = (F.elu(negative) + 1) * self.factor[batch.negatives]
        return F.softplus(negative - positive[:, None]).mean() + self.penalty(batch, (users, positives, negatives))

    def unbiased_scores(self) -> ScoreTable:
        """Return s for PD, or log f for PDA, to which the logarithm of popularity can be added."""
        table = super().unbiased_scores()
        return LogMatchScores(table) if self.settings.ranking_power else table

    def item_bias(self) -> Tensor | None:
        """Return log m̃ for PDA, and None for PD."""
        return self.settings.ranking_power * self.log_share if self.settings.ranking_power else None

    def score_user(self, user: Tensor, items: Tensor) -> Tensor:
        """Return :meth:`unbiased_scores` of one user."""
        scores = self.backbone.score(user, items)
        if not self.settings.ranking_power:
            return scores
        return torch.where(scores < 0, scores, torch.log1p(scores.clamp(min=0)))

    def user_loss(self, positive: Tensor, negative: Tensor) -> Tensor:
        """Return the pairwise loss of f, without popularity, with all other items as negatives."""
        logarithms = bool(self.settings.ranking_power)
        positive, negative = (one.exp() if logarithms else F.elu(one) + 1 for one in (positive, negative))
        return F.softplus(negative - positive[:, None]).mean()


@dataclass(frozen=True, eq=False)
class LogMatchScores(DerivedScores):
    """log(ELU(s) + 1) of a table of s: s itself below 0, and log(1 + s) above."""

    def block(self, users: IntArray, start: int, stop: int) -> FloatArray:
        """Scores of these users for items ``start`` to ``stop``, float32 [len(users), stop - start]."""
        scores = self.table.block(users, start, stop)
        return np.where(scores < 0, scores, np.log1p(np.maximum(scores, 0)))
