"""CausPref: a user's preference is predicted along a graph without cycles, and items are matched to it."""

from dataclasses import replace
from typing import Any, ClassVar, Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from icpe.backbones.base import Backbone, normal_table
from icpe.data.interactions import Interactions
from icpe.methods._parts.acyclic import Matching, acyclicity, loss_of_pairs
from icpe.methods.base import Method
from icpe.ranking.tables import DotScores, NeuMFScores, PairScores, ScoreTable, to_numpy, with_bias
from icpe.settings import setting
from icpe.train.abilities import Diagnostics, FoldIn
from icpe.train.batch import Batch, Negatives
from icpe.train.method import MethodSettings

_NEGLIGIBLE = 0.01  # diagnostics count a link below this as zero


class CausPrefSettings(MethodSettings):
    """Settings of :class:`CausPref`."""

    ranking_weight: float = setting(1.0, "Weight c_b of the pairwise loss.", least=0.0)
    reconstruction_weight: float = setting(
        0.5, "Weight c_r of the error of the predicted features.", least=0.0, search=(0.1, 0.5, 1.0)
    )
    acyclicity_weight: float = setting(
        6.0, "Weight η of the measure of cycles among item features.", least=0.0, search=(1.0, 6.0)
    )
    item_sparsity: float = setting(1.0, "Weight c_A of the L1 norm of the links among item features.", least=0.0)
    user_sparsity: float = setting(
        1e-6, "Weight c_W of the L1 norm of the links from user features to item features.", least=0.0
    )
    candidates: int = setting(
        2,
        "Unused items from which each negative is chosen (Q); 1 gives a uniform negative.",
        least=1,
        search=(1, 2, 5, 10),
    )
    temperature: float = setting(
        1.0, "Temperature T of that choice, whose probabilities are ∝ exp(−cosine to the preference / T).", above=0.0
    )
    map_lr: float = setting(
        0.01,
        "Learning rate of the links from users to items and of the encoders, as a share of that of the run.",
        least=0.0,
        search=(1.0, 0.1, 0.01),
    )
    preference: Literal["conditional", "itemfree"] = setting(
        "conditional",
        "Preference that items are matched to: it depends on the scored item (conditional), or on the user alone "
        "(itemfree), which cannot learn an item's popularity from the links.",
    )
    encoder_width: int | None = setting(
        None, "Output width D' of the encoders. Default: that of the representations.", least=1
    )


class CausPref(Diagnostics, FoldIn, Method):
    """Causal preference learning (He et al. 2022), on ids: the features are the backbone's representations.

    A linear graph leads from the D features of the user to those of the item (W), and from item features to other item
    features (A). The preference p_ui = z_u·Wᵀ + z_i·A predicts the features of the items that the user chooses, and
    items are scored by ŝ_ui = (E_p·p_ui + β_p)·(E_v·z_i + β_v). The loss is

    c_b·mean softplus(ŝ_uj − ŝ_ui) + c_r·mean ‖p_ui − z_i‖²/D + h(A)²/2 + η·h(A) + c_A·‖A‖₁/D² + c_W·‖W‖₁

    where the predicted z_i gets no gradient and h(A) is :func:`~icpe.methods._parts.acyclic.acyclicity`. The negative j
    is chosen among a few items that the user has not used, preferably far from the user's preference. A backbone whose
    score is not an inner product (NeuMF) keeps its own score instead of the encoders E, with p_ui in place of the user.

    Example:
        >>> from icpe.backbones import MF
        >>> CausPref(MF(dim=16), candidates=5).negatives
        Negatives(count=5, shared=False, seen=False)
    """

    name: ClassVar[str] = "causpref"
    Settings = CausPrefSettings
    settings: CausPrefSettings
    off_diagonal: Tensor

    @property
    def negatives(self) -> Negatives:
        """The candidates of each positive."""
        return Negatives(self.settings.candidates)

    def build(self, train: Interactions, rng: np.random.Generator) -> None:
        """Build the backbone, then the links; W and the encoders start at the identity."""
        super().build(train, rng)
        with torch.no_grad():
            size = self.backbone.reps()[0].shape[1]
        # W = I + map_lr · V with V trained at the full rate: for Adam and RMSprop, which divide a gradient by its own
        # size, this equals training W at map_lr times the rate (except for their ε).
        self.user_links_change = nn.Parameter(torch.zeros(size, size))
        self.item_links_raw = normal_table(size, size, 0.15 * (64 / size) ** 0.5, rng)
        self.register_buffer("off_diagonal", 1 - torch.eye(size), persistent=False)
        if self.backbone.inner_product:
            width = self.settings.encoder_width or size
            self.preference_change = nn.Parameter(torch.zeros(width, size))
            self.item_change = nn.Parameter(torch.zeros(width, size))
            self.preference_shift = nn.Parameter(torch.zeros(width))
            self.item_shift = nn.Parameter(torch.zeros(width))

    def user_links(self) -> Tensor:
        """Return W, [D, D]: row k holds the effect of the user's features on feature k of the item."""
        return self._near_identity(self.user_links_change)

    def item_links(self) -> Tensor:
        """Return A, [D, D]: entry (k, l) leads from feature k of the item to feature l; the diagonal is 0."""
        return self.item_links_raw * self.off_diagonal

    def _near_identity(self, change: Tensor) -> Tensor:
        start = torch.eye(*change.shape, dtype=change.dtype, device=change.device)
        return torch.add(start, change, alpha=self.settings.map_lr)

    def _encode_preference(self, preferences: Tensor) -> Tensor:
        return F.linear(preferences, self._near_identity(self.preference_change), self.preference_shift)

    def _encode_items(self, items: Tensor) -> Tensor:
        return F.linear(items, self._near_identity(self.item_change), self.item_shift)

    def loss(self, batch: Batch, rng: torch.Generator | None = None) -> Tensor:
        """Return the whole objective plus the L2 term on users, positives and the chosen negatives."""
        settings = self.settings
        wanted = torch.cat([batch.items, batch.negatives.reshape(-1)])
        users, items = self.backbone.rows(batch.users, wanted, rng)
        user_links, item_links = self.user_links(), self.item_links()
        if settings.candidates > 1:
            with torch.no_grad():
                positions, batch = self._chosen(batch, users @ _item_free_map(user_links, item_links), items, rng)
            items = F.embedding(positions, items)
        graph_loss = self._graph_loss(user_links, item_links)
        if self.backbone.inner_product and settings.preference == "conditional":
            # Where the rows at hand are the trainable ones, the closed form includes the L2 term.
            with_penalty = self.backbone.trains_rows
            weights = settings.ranking_weight, settings.reconstruction_weight, self.reg if with_penalty else 0.0
            loss = loss_of_pairs(users, items, user_links, item_links, self._matching(), *weights) + graph_loss
            return loss if with_penalty else loss + self.penalty(batch)
        scores, predicted = self._pair_scores(users, items, user_links, item_links)
        loss = settings.ranking_weight * F.softplus(scores[1] - scores[0]).mean()
        loss = loss + settings.reconstruction_weight * F.mse_loss(predicted, items[: len(users)].detach())
        return loss + graph_loss + self.penalty(batch, (users, items[: len(users)], items[len(users) :]))

    def _chosen(
        self, batch: Batch, preferences: Tensor, items: Tensor, rng: torch.Generator | None
    ) -> tuple[Tensor, Batch]:
        """Return the positions of the positives and the chosen negatives in ``items``, and the batch of only these."""
        size, candidates = len(preferences), self.settings.candidates
        chosen = self.choose(preferences, items[size:].view(size, candidates, -1), rng)
        first = torch.arange(size, device=chosen.device)
        positions = torch.cat([first, chosen.add(first, alpha=candidates).add_(size)])
        return positions, replace(batch, negatives=batch.negatives.gather(1, chosen[:, None]))

    def _pair_scores(
        self, users: Tensor, items: Tensor, user_links: Tensor, item_links: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return ŝ of positives and negatives, [2, batch], and p_ui of the positives, [batch, D]."""
        pairs, mapped = items.view(2, *users.shape), F.linear(users, user_links)
        if self.settings.preference == "conditional":
            preferences = torch.matmul(items, item_links).view_as(pairs) + mapped
            return self._match(preferences, pairs), preferences[0]
        predicted = torch.addmm(mapped, pairs[0], item_links)
        preferences = users @ _item_free_map(user_links, item_links)
        if not self.backbone.inner_product:
            return self.backbone.score(preferences.expand_as(pairs), pairs), predicted
        matching = self._matching()
        item_terms = torch.mv(items, matching.item_term).view(2, -1)
        return (matching.targets(items).view_as(pairs) * preferences).sum(-1) + item_terms, predicted

    def _matching(self) -> Matching:
        preference, item = (self._near_identity(one) for one in (self.preference_change, self.item_change))
        return Matching.of(preference, self.preference_shift, item, self.item_shift)

    def _graph_loss(self, user_links: Tensor, item_links: Tensor) -> Tensor:
        """Return the terms of the loss that depend on the graph alone."""
        settings, cycles = self.settings, acyclicity(item_links)
        sparse = settings.item_sparsity * item_links.abs().mean() + settings.user_sparsity * user_links.abs().sum()
        return (0.5 * cycles + settings.acyclicity_weight) * cycles + sparse

    def choose(self, preferences: Tensor, candidates: Tensor, rng: torch.Generator | None = None) -> Tensor:
        """Return the index of one candidate [n, Q, D] for each preference [n, D], int [n].

        The probability of a candidate is ∝ exp(−cosine / T).
        """
        norms = preferences.norm(dim=-1)[:, None] * candidates.norm(dim=-1)
        cosine = (candidates * preferences[:, None]).sum(-1) / norms.clamp_min(1e-12)
        # The shortest of exponential waiting times with these rates wins; computed in logarithms.
        times = torch.rand(cosine.shape, generator=rng, dtype=cosine.dtype, device=cosine.device)
        return times.log_().neg_().log_().add_(cosine, alpha=1 / self.settings.temperature).argmin(1)

    def _match(self, preferences: Tensor, items: Tensor) -> Tensor:
        """Return ŝ of preferences with items, [..., D] × [..., D] → [...]."""
        if not self.backbone.inner_product:
            return self.backbone.score(preferences, items)
        return (self._encode_preference(preferences) * self._encode_items(items)).sum(-1)

    def score_user(self, user: Tensor, items: Tensor) -> Tensor:
        """Return ŝ of one user's representation [D] for items [n, D]: [n]."""
        if self.settings.preference == "itemfree":
            return self._match(user[None] @ _item_free_map(self.user_links(), self.item_links()), items)
        return self._match(F.linear(user[None], self.user_links()) + items @ self.item_links(), items)

    def user_loss(self, positive: Tensor, negative: Tensor) -> Tensor:
        """Return the pairwise loss with all other items as negatives."""
        return F.softplus(negative - positive[:, None]).mean()

    def scores(self) -> ScoreTable:
        """Return ŝ of all pairs. With inner products, the item's own part of the preference is a bias of the item."""
        users, items = self.backbone.reps()
        if self.settings.preference == "itemfree":
            return self._item_free_scores(users @ _item_free_map(self.user_links(), self.item_links()), items)
        mapped, added = F.linear(users, self.user_links()), items @ self.item_links()
        if not self.backbone.inner_product:
            return _shifted_user_scores(self.backbone, mapped, items, added)
        encoded = self._encode_items(items)
        bias = (self._encode_preference(added) * encoded).sum(-1)
        user = F.linear(mapped, self._near_identity(self.preference_change))
        return DotScores(to_numpy(user), to_numpy(encoded), to_numpy(bias))

    def _item_free_scores(self, preferences: Tensor, items: Tensor) -> ScoreTable:
        if not self.backbone.inner_product:
            return self.backbone.scores(preferences, items)
        user, item = self._encode_preference(preferences), self._encode_items(items)
        return DotScores(to_numpy(user), to_numpy(item))

    def diagnostics(self) -> dict[str, Any]:
        """Return the measure of cycles, the share of negligible links, and the strongest link among item features."""
        with torch.no_grad():
            links = self.item_links().abs()
            off_diagonal = max(links.numel() - len(links), 1)
            negligible = int((links < _NEGLIGIBLE).sum()) - len(links)
            return {
                "cycles": float(acyclicity(links)),
                "zero_links": negligible / off_diagonal,
                "strongest_link": float(links.max()),
            }


def _item_free_map(user_links: Tensor, item_links: Tensor) -> Tensor:
    """Return Wᵀ(I + A + A² + A³), [D, D], which maps z_u to the preference p̄_u that does not depend on an item."""
    total = start = user_links.T
    for _ in range(3):
        total = torch.addmm(start, total, item_links)
    return total


def _shifted_user_scores(backbone: Backbone, users: Tensor, items: Tensor, shifts: Tensor) -> ScoreTable:
    """Return the scores of a backbone when the representation of a user is users[u] + shifts[i] for item i."""
    table = backbone.scores(users, items)
    if not isinstance(table, NeuMFScores):

        def score(user: Tensor, item: Tensor) -> Tensor:
            item, shift = item.chunk(2, -1)
            return backbone.score(user + shift, item)

        return PairScores(score, users, torch.cat([items, shifts], -1))
    # NeuMF's product and its first layer are linear in the user, so the shift of an item is computed once per item.
    shifted = backbone.scores(shifts, items)
    zero = backbone.scores(torch.zeros_like(shifts[:1]), items[:1])
    assert isinstance(shifted, NeuMFScores)
    assert isinstance(zero, NeuMFScores)
    linear = with_bias(table.linear, np.einsum("id,id->i", shifted.linear.user_vectors, shifted.linear.item_vectors))
    assert isinstance(linear, DotScores)
    return replace(table, linear=linear, item_hidden=table.item_hidden + (shifted.user_hidden - zero.user_hidden))
