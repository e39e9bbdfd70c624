"""DICE: interest and conformity as two causes of an interaction, each with its own representations."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar, Literal, get_args

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from icpe.backbones.base import Backbone
from icpe.backbones.channels import Channels, Size
from icpe.data.interactions import Interactions
from icpe.methods._parts.distance_correlation import DistanceCorrelation
from icpe.methods._parts.popularity_margin import PopularityMarginSampler
from icpe.methods.base import Method
from icpe.ranking.tables import ScoreTable
from icpe.settings import setting
from icpe.train.abilities import CustomSampling, Diagnostics, FoldIn, RankingChoice, Refresh
from icpe.train.batch import Batch, Negatives, SampledBatch
from icpe.train.method import MethodSettings

RankBy = Literal["total", "interest"]


class DICESettings(MethodSettings):
    """Settings of :class:`DICE`."""

    size: Size = setting(
        "half",
        "Width of each of the two channels: half that of the backbone, which keeps the number of parameters, or full.",
    )
    negatives: int = setting(4, "Negatives for each positive (K).", least=1)
    margin: float | None = setting(
        None,
        "By how many users an item must exceed another to count as more popular (μ). Default: the third quartile of "
        "the items' training counts minus their median, at least 5.",
        least=0.0,
    )
    margin_scale: float = setting(1.0, "Factor of the margin.", least=0.0, search=(0.5, 1.0, 2.0))
    min_candidates: int = setting(
        40, "Smallest number of candidates in a set from which negatives are sampled (ρ).", least=1
    )
    interest_weight: float = setting(0.1, "Weight a of the interest loss.", least=0.0, search=(0.05, 0.1, 0.5, 1.0))
    conformity_weight: float | None = setting(
        None, "Weight b of the conformity loss. Default: that of the interest loss.", least=0.0
    )
    discrepancy_weight: float = setting(
        0.01,
        "Weight κ of the term that makes the two channels independent.",
        least=0.0,
        search=(0.0, 1e-3, 1e-2, 1e-1),
    )
    decay: float = setting(
        0.9,
        "Factor by which the margin and the weights of interest and conformity are multiplied after every epoch.",
        above=0.0,
        most=1.0,
        search=(0.9, 0.95, 1.0),
    )
    discrepancy: Literal["dcor", "l1", "l2"] = setting(
        "dcor",
        "Term that makes the channels independent: distance correlation (dcor), or minus the mean absolute (l1) or "
        "squared (l2) difference, which is unbounded and needs a small weight.",
    )
    discrepancy_rows: int = setting(
        256,
        "Largest number of users, and of items, of a batch that enter the discrepancy; its cost grows with the square.",
        least=1,
    )
    rank_by: RankBy | None = setting(
        None,
        "Score that ranks items: the total of both channels, or interest alone. Default: the better one at validation, "
        "and the total without validation.",
        ranking=True,
    )


class DICE(CustomSampling, Refresh, RankingChoice, Diagnostics, FoldIn, Method):
    """Disentangling interest and conformity with causal embedding (Zheng et al. 2021).

    An interaction is explained by s^T = s^I + s^C, the logits of two channels of the backbone. Negatives are clearly
    more or clearly less popular than the positive. A user who chooses an item over a more popular one (o = 1) does so
    out of interest; a choice over a less popular one (o = 0) is explained by conformity. With the gaps g = s_ui − s_uj
    and ℓ(x) = softplus(−x):

    L = mean[ℓ(g^T) + a·o·ℓ(g^I) + b·(o·ℓ(−g^C) + (1−o)·ℓ(g^C))] + κ·(dCor of users' vectors + dCor of items' vectors)

    After every epoch, the margin, a and b are multiplied by ``decay``.

    Example:
        >>> from icpe.backbones import MF
        >>> DICE(MF(dim=16)).backbone.first.settings.dim
        8
    """

    name: ClassVar[str] = "dice"
    Settings = DICESettings
    settings: DICESettings
    backbone: Channels
    fade: Tensor
    by_interest: Tensor

    def __init__(self, backbone: Backbone, **settings: Any) -> None:
        size = self.Settings.parse(settings, f"method {self.name!r}").size
        super().__init__(Channels.of(backbone, size) if isinstance(backbone, Backbone) else backbone, **settings)

    @property
    def negatives(self) -> Negatives:
        """Uniform negatives; :meth:`sample` keeps those of positives that have too few candidates."""
        return Negatives(self.settings.negatives)

    @property
    def ranks_by(self) -> RankBy:
        """The score that ranks items: that of the settings, or the one that validation has chosen."""
        return self.settings.rank_by or ("interest" if bool(self.by_interest) else "total")

    def build(self, train: Interactions, rng: np.random.Generator) -> None:
        """Build both channels and the sampler of negatives."""
        super().build(train, rng)
        margin = self.settings.margin
        self.first_margin = self.settings.margin_scale * (_default_margin(train) if margin is None else margin)
        self.sampler = PopularityMarginSampler(train, self.settings.min_candidates)
        self._correlation = DistanceCorrelation()
        self.register_buffer("fade", torch.ones(()))  # decay to the power of the epoch
        self.register_buffer("by_interest", torch.zeros((), dtype=torch.bool))

    def sample(self, batch: SampledBatch, epoch: int, rng: np.random.Generator) -> SampledBatch:
        """Return negatives by popularity, with labels that are 1 for the more popular ones."""
        margin = self.first_margin * self.settings.decay**epoch
        negatives, popular = self.sampler.sample(batch.users, batch.items, batch.negatives, margin, rng)
        return replace(batch, negatives=negatives, labels=popular.astype(np.int64))

    def refresh_due(self, step: int, epoch_steps: int) -> bool:
        """Whether a new epoch starts, except for the first."""
        return step > 0 and step % epoch_steps == 0

    def refresh(self, step: int, seed: int) -> None:
        """Reduce the weights of the two causes."""
        self.fade.mul_(self.settings.decay)

    @property
    def weights(self) -> tuple[float, float]:
        """Present weights of the interest loss and of the conformity loss."""
        interest, conformity = self.settings.interest_weight, self.settings.conformity_weight
        fade = float(self.fade)
        return interest * fade, (interest if conformity is None else conformity) * fade

    def loss(self, batch: Batch, rng: torch.Generator | None = None) -> Tensor:
        """Return the three pairwise losses, the discrepancy and the L2 term."""
        assert batch.labels is not None
        # Each positive is followed by its negatives: this needs no copy, and the first codes are a fair mixture.
        wanted = torch.cat([batch.items[:, None], batch.negatives], 1)
        codes = wanted.view(-1)
        channels = self.backbone.first, self.backbone.second
        rows = [channel.rows(batch.users, codes, rng) for channel in channels]
        (interest, interest_penalty), (conformity, conformity_penalty) = (
            self._scores_and_penalty(channel, users, items.view(*wanted.shape, -1), batch)
            for channel, (users, items) in zip(channels, rows, strict=True)
        )
        loss = self._pairwise(interest[:, :1] - interest[:, 1:], conformity[:, :1] - conformity[:, 1:], batch.labels)
        if self.settings.discrepancy_weight:
            users, items = zip(*rows, strict=True)
            dependence = self.dependence(users, batch.users) + self.dependence(items, codes)
            loss = loss + self.settings.discrepancy_weight * dependence
        if not self.backbone.trains_rows:
            return loss + self.penalty(batch)
        return loss + interest_penalty + conformity_penalty

    def _scores_and_penalty(
        self, channel: Backbone, users: Tensor, items: Tensor, batch: Batch
    ) -> tuple[Tensor, Tensor]:
        """Return the scores of users [batch, D] and items [batch, 1 + K, D], and the L2 term of trainable rows."""
        if not channel.trains_rows:
            return channel.score(users[:, None], items), users.new_zeros(())
        if channel.inner_product:
            return products_with_penalty(users, items, self.reg)
        return channel.score(users[:, None], items), self.penalty(batch, (users, items[:, 0], items[:, 1:]))

    def _pairwise(self, interest: Tensor, conformity: Tensor, labels: Tensor) -> Tensor:
        """Return the pairwise losses of the gaps [batch, K] of both channels."""
        popular = labels.to(interest.dtype)
        a, b = self.weights
        total = F.softplus(-interest - conformity)
        return (total + a * popular * F.softplus(-interest) + b * F.softplus((2 * popular - 1) * conformity)).mean()

    def dependence(self, rows: Sequence[Tensor], codes: Tensor) -> Tensor:
        """Return how much the channels depend on each other for the distinct users or items of a batch.

        Args:
            rows: representations by the first and by the second channel, [n, D] each.
            codes: codes of these rows, int64 [n].
        """
        positions = first_positions(codes, self.settings.discrepancy_rows)
        first, second = (F.embedding(positions, one) for one in rows)
        if self.settings.discrepancy == "dcor":
            return self._correlation(first, second)
        gap = first - second
        return -(gap.abs() if self.settings.discrepancy == "l1" else gap.square()).mean()

    def ranking_options(self) -> Sequence[dict[str, Any]]:
        """Return both scores, unless the settings choose one."""
        return [] if self.settings.rank_by else [{"rank_by": one} for one in get_args(RankBy)]

    def choose_ranking(self, **settings: Any) -> None:
        """Rank by the total or by interest from now on."""
        self.by_interest.fill_(settings["rank_by"] == "interest")

    def ranking_choice(self) -> dict[str, Any]:
        """Return the choice in effect."""
        return {"rank_by": self.ranks_by}

    def diagnostics(self) -> dict[str, Any]:
        """Return the present margin and weights."""
        interest, conformity = self.weights
        margin = self.first_margin * float(self.fade)
        return {"margin": margin, "interest_weight": interest, "conformity_weight": conformity}

    def scores(self) -> ScoreTable:
        """Return the scores of both channels together, or of the first one, which is interest."""
        users, items = self.backbone.reps()
        if self.ranks_by == "total":
            return self.backbone.scores(users, items)
        return self.backbone.first.scores(self.backbone.split(users)[0], self.backbone.split(items)[0])

    def score_user(self, user: Tensor, items: Tensor) -> Tensor:
        """Return the same scores for one user."""
        if self.ranks_by == "total":
            return self.backbone.score(user, items)
        return self.backbone.first.score(self.backbone.split(user)[0], self.backbone.split(items)[0])

    def user_loss(self, positive: Tensor, negative: Tensor) -> Tensor:
        """Return the pairwise loss against all other items."""
        return F.softplus(negative - positive[:, None]).mean()


def products_with_penalty(users: Tensor, items: Tensor, reg: float) -> tuple[Tensor, Tensor]:
    """Return the inner products [b, 1 + K] of users with items, and the L2 term of both, in few passes over memory.

    Args:
        users: [b, D].
        items: a positive and then K negatives for each user, [b, 1 + K, D].
        reg: λ of the term λ/2 · (mean squared norm of users + of positives + of negatives).
    """
    found: tuple[Tensor, Tensor] = _ProductsWithPenalty.apply(users, items, reg)  # type: ignore[no-untyped-call]
    return found


class _ProductsWithPenalty(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, users: Tensor, items: Tensor, reg: float) -> tuple[Tensor, Tensor]:
        size, count = len(users), items.shape[1] - 1
        shares = items.new_full((1 + count, 1), reg / (size * count))
        shares[0] = reg / size
        ctx.save_for_backward(users, items, shares)
        ctx.reg = reg
        positives = items[:, 0].square().sum()
        negatives = torch.dot(items.reshape(-1), items.reshape(-1)) - positives
        penalty = 0.5 * reg / size * (users.square().sum() + positives + negatives / count)
        return (items * users[:, None]).sum(-1), penalty

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, score_grads: Tensor, penalty_grad: Tensor) -> tuple[Tensor, Tensor, None]:
        users, items, shares = ctx.saved_tensors
        wide = score_grads[..., None]
        user_grads = (wide * items).sum(1).addcmul_(users, penalty_grad * ctx.reg / len(users))
        return user_grads, (wide * users[:, None]).addcmul_(items, penalty_grad * shares), None


def first_positions(codes: Tensor, most: int) -> Tensor:
    """Return the positions at which distinct codes int64 [n] first occur, in ascending order, at most ``most``.

    Example:
        >>> first_positions(torch.tensor([7, 3, 7, 5, 3]), most=2).tolist()
        [0, 1]
    """
    ordered, positions = torch.sort(codes, stable=True)
    new = torch.ones_like(codes, dtype=torch.bool)
    torch.ne(ordered[1:], ordered[:-1], out=new[1:])
    return positions[new].sort()[0][:most]


def _default_margin(train: Interactions) -> float:
    """Return the third quartile of the items' counts minus their median, at least 5."""
    median, upper = np.quantile(train.item_counts, [0.5, 0.75])
    return float(max(5.0, upper - median))
