"""BC loss: a softmax of cosines with a larger margin for pairs that popularity does not explain."""

from collections.abc import Sequence
from typing import Any, ClassVar, Literal, Self, get_args

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from icpe.backbones.base import Backbone
from icpe.data.interactions import Interactions
from icpe.errors import ConfigError
from icpe.methods._parts.distinct import distinct
from icpe.methods._parts.popularity_model import PopularityModel, PopularityModelSettings
from icpe.ranking.tables import DotScores, PairScores, ScoreTable, to_numpy
from icpe.settings import setting
from icpe.train.abilities import Diagnostics, FoldIn, RankingChoice
from icpe.train.batch import Batch, Negatives

RankBy = Literal["dot", "cos"]
_MIN_NORM = 1e-8  # smallest norm by which a vector is divided


class BCLossSettings(PopularityModelSettings):
    """Settings of :class:`BCLoss`."""

    temperature: float = setting(0.1, "Temperature τ₁ of the softmax.", above=0.0, search=(0.05, 0.07, 0.1, 0.15, 0.2))
    bias_weight: float = setting(
        0.5,
        "Weight w of the popularity model in the paper; the loss is multiplied by 1 − w, which matters only relative "
        "to the L2 term.",
        least=0.0,
        most=0.999,
    )
    negatives: int | None = setting(
        None,
        "Negatives N for each positive, among the items that its user has not used. Default: 128, or 32 where the "
        "score is not an inner product.",
        least=1,
        search=(32, 64, 128),
    )
    batch_negatives: bool | None = setting(
        None,
        "Whether the positives of all other rows of the batch are the negatives instead; this needs inner products. "
        "The popularity model keeps its N uniform negatives. Default: only for LightGCN and similar backbones.",
    )
    rank_by: RankBy | None = setting(
        None,
        "Score that ranks items: that of the backbone (dot) or the cosine (cos). Default: the better one at "
        "validation, and dot without validation.",
        ranking=True,
    )

    def completed(self, backbone: Backbone) -> Self:
        """Return the settings with the number and the source of the negatives filled in.

        Raises:
            ConfigError: the backbone cannot score all pairs of a batch.
        """
        settings, fast = super().completed(backbone), backbone.inner_product
        if settings.negatives is None:
            # Without inner products every score costs a pass through the backbone's layers.
            settings = settings.replace(negatives=128 if fast else 32)
        if settings.batch_negatives is None:
            # A backbone that computes more than the rows of a batch, such as LightGCN, gains most from the batch's own
            # negatives; the public code uses them for LightGCN too.
            return settings.replace(batch_negatives=fast and backbone.computes_all)
        if settings.batch_negatives and not fast:
            raise ConfigError(
                f"batch_negatives is True, which needs the scores of all pairs of a batch; {backbone.label} scores "
                "pairs one by one. Use a backbone with inner products (mf, lightgcn), or batch_negatives=False"
            )
        return settings


class BCLoss(PopularityModel, RankingChoice, Diagnostics, FoldIn):
    """Bias-aware contrastive loss (Zhang et al. 2022).

    A popularity model learns to predict pairs from the user's activity and the item's popularity alone. Then the
    backbone learns cos θ_ui by a softmax in which a positive counts as cos(θ_ui + M_ui). The margin M_ui, between 0 and
    1, is small if the popularity model explains the pair well, so that pairs with niche items must be learned more
    firmly.

    The popularity model is trained before the first step and does not change afterwards.

    Example:
        >>> from icpe.backbones import MF, NeuMF
        >>> BCLoss(MF()).settings.negatives, BCLoss(NeuMF()).settings.negatives
        (128, 32)
    """

    name: ClassVar[str] = "bc_loss"
    label: ClassVar[str] = "BC-Loss"
    Settings = BCLossSettings
    settings: BCLossSettings
    by_cosine: Tensor

    @property
    def bias_negatives(self) -> int:
        """Number of negatives for each positive, of the popularity model and of the backbone."""
        return self.settings.negatives or 1

    @property
    def negatives(self) -> Negatives:
        """N for each positive, or none if the batch provides them."""
        return Negatives(0, shared=True) if self.settings.batch_negatives else Negatives(self.bias_negatives)

    def build(self, train: Interactions, rng: np.random.Generator) -> None:
        """Build the backbone, then the popularity model: one row for each distinct count of users and of items.

        Raises:
            ConfigError: the score of the backbone defines no angle between a user and an item.
            DataError: a user has used every item, so that no negative exists.
        """
        super().build(train, rng)
        if not self.backbone.inner_product:
            with torch.no_grad():
                users, items = self.backbone.reps()
            self._check_linear(users[:1], items[:1])
        self.register_buffer("by_cosine", torch.tensor(False))

    def _check_linear(self, user: Tensor, item: Tensor) -> None:
        """Raise an error unless the score is linear in the interaction vector."""
        with torch.no_grad():
            phi = self.backbone.interact(user, item)
            phi = torch.linspace(0.5, 2, phi.shape[-1], dtype=phi.dtype, device=phi.device)
            phi = torch.stack([phi, -phi])
            direction, start = self._direction(phi)
            if torch.allclose(self.backbone.out(phi) - start, phi @ direction, rtol=1e-3, atol=1e-4):
                return
        raise ConfigError(
            f"the score of {self.backbone.label} is not linear in its interaction vector, so there is no angle to add "
            "a margin to. Use mf, lightgcn or neumf"
        )

    def margins(self, users: Tensor, items: Tensor) -> Tensor:
        """Return M = 1 − σ(P·Q) of pairs of codes, with vectors that are not normalised: int [n] × [n] → [n]."""
        with torch.no_grad():
            activity = F.embedding(self.user_level[users], self.activity)
            popularity = F.embedding(self.item_level[items], self.popularity)
            return torch.sigmoid(-(activity * popularity).sum(-1))

    def loss(self, batch: Batch, rng: torch.Generator | None = None) -> Tensor:
        """Return the softmax with margins plus the L2 term."""
        from icpe.methods._parts import margin as softmax  # late, because importing numba takes a while

        margin, temperature = self.margins(batch.users, batch.items), self.settings.temperature
        scale = 1 - self.settings.bias_weight
        # The row of each distinct user and item is read once, however often the batch contains it.
        wanted, positions = distinct(torch.cat([batch.items[:, None], batch.negatives], 1), self.backbone.items)
        if self.settings.batch_negatives:
            distinct_users, user = distinct(batch.users, self.backbone.users)
            vectors = self.backbone.rows(distinct_users, wanted, rng)
            loss = softmax.in_batch_with_margin(*vectors, (user, positions[:, 0]), margin, temperature)
            return scale * loss + self.penalty(batch)
        users, items = self.backbone.rows(batch.users, wanted, rng)
        if self.backbone.inner_product:
            loss = softmax.vectors_with_margin(users, items, positions[:, 0], positions[:, 1:], margin, temperature)
        else:
            cosines = self._cosine(users[:, None], F.embedding(positions, items))
            loss = softmax.softmax_with_margin(cosines, margin, temperature)
        return scale * loss + self._penalty_of_distinct(batch, wanted, positions, users, items)

    def _penalty_of_distinct(
        self, batch: Batch, wanted: Tensor, positions: Tensor, users: Tensor, items: Tensor
    ) -> Tensor | float:
        """Return :meth:`penalty`, where each distinct item's row counts as often as the batch contains it."""
        if self.reg == 0:
            return 0.0
        if not self.backbone.trains_rows:
            users, items = self.backbone.ego_users(batch.users), self.backbone.ego_items(wanted)
        size, count = batch.negatives.shape
        share = torch.bincount(positions[:, 0], minlength=len(wanted)) / size
        share += torch.bincount(positions[:, 1:].reshape(-1), minlength=len(wanted)) / (size * count)
        norms = items.square().sum(-1)
        return 0.5 * self.reg * (users.square().sum() / size + share.to(norms) @ norms)

    def _cosine(self, users: Tensor, items: Tensor) -> Tensor:
        """Return the cosine between the interaction vector and the direction of the score, [..., D]² → [...]."""
        phi = self.backbone.interact(users, items)
        direction, _ = self._direction(phi)
        return F.normalize(phi, dim=-1, eps=_MIN_NORM) @ F.normalize(direction, dim=-1, eps=_MIN_NORM)

    def _direction(self, phi: Tensor) -> tuple[Tensor, Tensor]:
        """Return the direction h and the constant b of a score h·φ + b: [D_φ] and one number."""
        start = self.backbone.out(phi.new_zeros(phi.shape[-1]))
        return self.backbone.out(torch.eye(phi.shape[-1], dtype=phi.dtype, device=phi.device)) - start, start

    @property
    def ranks_by(self) -> RankBy:
        """The score that ranks items: that of the settings, or the one that validation has chosen."""
        return self.settings.rank_by or ("cos" if self.by_cosine else "dot")

    def scores(self) -> ScoreTable:
        """Return the scores of the backbone, or cosines."""
        users, items = self.backbone.reps()
        if self.ranks_by == "dot":
            return self.backbone.scores(users, items)
        if not self.backbone.inner_product:
            return PairScores(self._cosine, users, items)
        return DotScores(*(to_numpy(F.normalize(one, dim=-1, eps=_MIN_NORM)) for one in (users, items)))

    def score_user(self, user: Tensor, items: Tensor) -> Tensor:
        """Return the scores of the backbone, or cosines, of one user."""
        if self.ranks_by == "dot":
            return self.backbone.score(user, items)
        if not self.backbone.inner_product:
            return self._cosine(user, items)
        return F.normalize(items, dim=-1, eps=_MIN_NORM) @ F.normalize(user[None], dim=-1, eps=_MIN_NORM)[0]

    def user_loss(self, positive: Tensor, negative: Tensor) -> Tensor:
        """Return the softmax against all other items, without a margin, because a new user's activity is unknown."""
        temperature = self.settings.temperature if self.ranks_by == "cos" else 1.0
        others = torch.logsumexp(negative / temperature, 0)
        return (torch.logaddexp(positive / temperature, others) - positive / temperature).mean()

    def ranking_options(self) -> Sequence[dict[str, Any]]:
        """Return both scores, unless the settings choose one."""
        return [] if self.settings.rank_by else [{"rank_by": one} for one in get_args(RankBy)]

    def choose_ranking(self, **settings: Any) -> None:
        """Rank by this score from now on."""
        self.by_cosine.fill_(settings["rank_by"] == "cos")

    def ranking_choice(self) -> dict[str, Any]:
        """Return the choice in effect."""
        return {"rank_by": self.ranks_by}

    def diagnostics(self) -> dict[str, Any]:
        """Return the mean margins of training pairs with head items and with niche items."""
        head, niche = self.group_means(torch.sigmoid(-self.level_products()))
        return {"head_margin": head, "niche_margin": niche}
