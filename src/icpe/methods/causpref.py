"""CausPref: the item a user would like is predicted along a graph without cycles, and items are matched to it."""

from dataclasses import replace
from typing import Any, ClassVar, Literal, get_args

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from icpe.backbones.base import Backbone, normal_table
from icpe.data.interactions import Interactions
from icpe.methods._parts.acyclic import Matching, acyclicity, loss_of_pairs
from icpe.ranking.tables import DotScores, NeuMFScores, PairScores, ScoreTable, to_numpy, with_bias
from icpe.train.method import Batch, Method, Negatives, check_choice, check_count, check_number

Preference = Literal["conditional", "itemfree"]
_ZERO = 0.01  # a link below counts as none in what the method shows of itself


class CausPref(Method):
    """Causal preference learning (He et al. 2022), on ids: features are the backbone's representations.

    A linear graph leads from the D features of the user to those of the item (W) and among those of the item (A,
    without loops of length one): the preference p_ui = z_u·Wᵀ + z_i·A predicts the features of items the user takes,
    and items are scored by ŝ_ui = (E_p·p_ui + β_p)·(E_v·z_i + β_v). Minimised is

    c_b·mean softplus(ŝ_uj − ŝ_ui) + c_r·mean ‖p_ui − z_i‖²/D + h(A)²/2 + η·h(A) + c_A·‖A‖₁/D² + c_W·‖W‖₁

    with no gradient to the z_i that is predicted, and h(A) of :func:`~icpe.methods._parts.acyclic.acyclicity`. The
    negative j is drawn from some items the user has not used, rather one far from the user's preference. A backbone
    whose score is no inner product (NeuMF) keeps its own head in place of the encoders E: p_ui
    stands for the user.

    Args:
        backbone: the model to train.
        ranking: weight of the pairwise loss (c_b).
        reconstruction: weight of the error of the predicted features (c_r).
        eta: factor of h(A) (η).
        sparsity: weight of the links among item features (c_A).
        map_sparsity: weight of those from user to item features (c_W).
        candidates: items from which a negative is drawn (Q); 1 is a uniform negative.
        temperature: of that draw (T): exp(−cosine to the preference / T).
        dense_lr: learning rate of W and the encoders, as a share of that of everything else.
        preference: ``"conditional"`` has the scored item itself in the preference, ``"itemfree"`` follows the links
            from the user alone, z_u·Wᵀ(I + A + A² + A³), and so cannot learn an item's popularity from them.
        width: of the encoders (D'); by default that of the representations.
        reg: λ of the L2 term; by default the backbone's.

    Example:
        >>> from icpe.backbones import MF
        >>> CausPref(MF(dim=16), candidates=5).negatives
        Negatives(count=5, shared=False, seen=False)
    """

    name: ClassVar[str] = "causpref"
    search: ClassVar[dict[str, tuple[Any, ...]]] = {
        "reconstruction": (0.1, 0.5, 1.0),
        "eta": (1.0, 6.0),
        "candidates": (1, 2, 5, 10),
        "dense_lr": (1.0, 0.1, 0.01),
    }
    off_diagonal: Tensor

    def __init__(
        self,
        backbone: Backbone,
        ranking: float = 1.0,
        reconstruction: float = 0.5,
        eta: float = 6.0,
        sparsity: float = 1.0,
        map_sparsity: float = 1e-6,
        candidates: int = 2,
        temperature: float = 1.0,
        dense_lr: float = 0.01,
        preference: Preference = "conditional",
        width: int | None = None,
        reg: float | None = None,
    ) -> None:
        super().__init__(backbone, reg)
        self.ranking, self.reconstruction, self.eta = ranking, reconstruction, eta
        self.sparsity, self.map_sparsity, self.dense_lr = sparsity, map_sparsity, dense_lr
        for name in ("ranking", "reconstruction", "eta", "sparsity", "map_sparsity", "dense_lr"):
            check_number(name, getattr(self, name), least=0.0)
        check_count("candidates", candidates)
        check_number("temperature", temperature, least=0.0, open_left=True)
        check_choice("preference", preference, get_args(Preference))
        if width is not None:
            check_count("width", width)
        self.candidates, self.temperature = candidates, temperature
        self.preference: Preference = preference
        self.width = width

    def settings(self) -> dict[str, Any]:
        """Constructor arguments but the backbone."""
        return {
            "ranking": self.ranking,
            "reconstruction": self.reconstruction,
            "eta": self.eta,
            "sparsity": self.sparsity,
            "map_sparsity": self.map_sparsity,
            "candidates": self.candidates,
            "temperature": self.temperature,
            "dense_lr": self.dense_lr,
            "preference": self.preference,
            "width": self.width,
            "reg": self.reg,
        }

    @property
    def negatives(self) -> Negatives:
        """The candidates of each positive."""
        return Negatives(self.candidates)

    def build(self, train: Interactions, rng: np.random.Generator) -> None:
        """The backbone, then the links; W and the encoders start at the identity."""
        super().build(train, rng)
        with torch.no_grad():
            users, items = (one[:1] for one in self.backbone.reps())
            vectors = self.backbone.vectors(users, items)
        self._inner = vectors is not None
        size = (users if vectors is None else vectors[0]).shape[1]
        # W = I + dense_lr · V with V trained at the full rate: to Adam and RMSprop, which divide a gradient by its own
        # size, that is W at dense_lr times the rate (but for their ε).
        self.user_links_change = nn.Parameter(torch.zeros(size, size))
        self.item_links_raw = normal_table(size, size, 0.15 * (64 / size) ** 0.5, rng)
        self.register_buffer("off_diagonal", 1 - torch.eye(size), persistent=False)
        if self._inner:
            width = size if self.width is None else self.width
            self.preference_change = nn.Parameter(torch.zeros(width, size))
            self.item_change = nn.Parameter(torch.zeros(width, size))
            self.preference_shift = nn.Parameter(torch.zeros(width))
            self.item_shift = nn.Parameter(torch.zeros(width))

    def user_links(self) -> Tensor:
        """W, [D, D]: row k holds what the user's features add to feature k of the item."""
        return self._near_identity(self.user_links_change)

    def item_links(self) -> Tensor:
        """A, [D, D]: entry (k, l) leads from feature k of the item to feature l; nothing leads to itself."""
        return self.item_links_raw * self.off_diagonal

    def _near_identity(self, change: Tensor) -> Tensor:
        start = torch.eye(*change.shape, dtype=change.dtype, device=change.device)
        return torch.add(start, change, alpha=self.dense_lr)

    def _encode_preference(self, preferences: Tensor) -> Tensor:
        return F.linear(preferences, self._near_identity(self.preference_change), self.preference_shift)

    def _encode_items(self, items: Tensor) -> Tensor:
        return F.linear(items, self._near_identity(self.item_change), self.item_shift)

    def loss(self, batch: Batch, rng: torch.Generator | None = None) -> Tensor:
        """The whole objective plus the L2 term on users, positives and the negatives that were chosen."""
        wanted = torch.cat([batch.items, batch.negatives.reshape(-1)])
        users, both = self.backbone.rows(batch.users, wanted, rng)
        user_links, item_links = self.user_links(), self.item_links()
        if self.candidates > 1:
            with torch.no_grad():
                user, item = self._features(users, both)
                places, batch = self._chosen(batch, user @ _reach(user_links, item_links), item, rng)
            both = F.embedding(places, both)
        of_graph = self._of_graph(user_links, item_links)
        user, item = self._features(users, both)
        if self._inner and self.preference == "conditional":
            # Where the rows at hand are the trainable ones, the L2 term is made along with the loss.
            ego = user is users and item is both and bool(self.backbone.row_tables()[0])
            weights = (self.ranking, self.reconstruction, self.reg if ego else 0.0)
            loss = loss_of_pairs(user, item, user_links, item_links, self._matching(), *weights)
            return loss + of_graph if ego else loss + of_graph + self.penalty(batch)
        score, predicted = self._both_scores(user, item, user_links, item_links)
        positives = item[: len(user)]
        loss = self.ranking * F.softplus(score[1] - score[0]).mean()
        loss = loss + self.reconstruction * F.mse_loss(predicted, positives.detach())
        return loss + of_graph + self.penalty(batch, (users, both[: len(users)], both[len(users) :]))

    def _chosen(
        self, batch: Batch, preferences: Tensor, both: Tensor, rng: torch.Generator | None
    ) -> tuple[Tensor, Batch]:
        """Where the positives and the chosen negatives stand in ``both``, and the batch with these alone."""
        size = len(preferences)
        chosen = self.choose(preferences, both[size:].view(size, self.candidates, -1), rng)
        first = torch.arange(size, device=chosen.device)
        places = torch.cat([first, chosen.add(first, alpha=self.candidates).add_(size)])
        return places, replace(batch, negatives=batch.negatives.gather(1, chosen[:, None]))

    def _both_scores(
        self, users: Tensor, items: Tensor, user_links: Tensor, item_links: Tensor
    ) -> tuple[Tensor, Tensor]:
        """ŝ of positives and negatives, [2, batch], and p_ui of the positives, [batch, D]."""
        pairs, mapped = items.view(2, *users.shape), F.linear(users, user_links)
        if self.preference == "conditional":
            preferences = torch.matmul(items, item_links).view_as(pairs) + mapped
            return self._match(preferences, pairs), preferences[0]
        predicted, preferences = torch.addmm(mapped, pairs[0], item_links), users @ _reach(user_links, item_links)
        if not self._inner:
            return self.backbone.score(preferences.expand_as(pairs), pairs), predicted
        matching = self._matching()
        own = torch.mv(items, matching.pull).view(2, -1)
        return (matching.wanted(items).view_as(pairs) * preferences).sum(-1) + own, predicted

    def _matching(self) -> Matching:
        preference, item = (self._near_identity(one) for one in (self.preference_change, self.item_change))
        return Matching.of(preference, self.preference_shift, item, self.item_shift)

    def _of_graph(self, user_links: Tensor, item_links: Tensor) -> Tensor:
        """What the graph itself costs."""
        cycles = acyclicity(item_links)
        sparse = self.sparsity * item_links.abs().mean() + self.map_sparsity * user_links.abs().sum()
        return (0.5 * cycles + self.eta) * cycles + sparse

    def choose(self, preferences: Tensor, offered: Tensor, rng: torch.Generator | None = None) -> Tensor:
        """One of the items offered [n, Q, D] to each preference [n, D], with a chance ∝ exp(−cosine / T): int [n]."""
        lengths = preferences.norm(dim=-1)[:, None] * offered.norm(dim=-1)
        cosine = (offered * preferences[:, None]).sum(-1) / lengths.clamp_min(1e-12)
        # Of exponential waiting times with these rates the shortest, in logarithms.
        chance = torch.rand(cosine.shape, generator=rng, dtype=cosine.dtype, device=cosine.device)
        return chance.log_().neg_().log_().add_(cosine, alpha=1 / self.temperature).argmin(1)

    def _features(self, users: Tensor, items: Tensor) -> tuple[Tensor, Tensor]:
        """What the graph is about: vectors whose inner product is the score, or else the representations."""
        return self.backbone.vectors(users, items) or (users, items)

    def _match(self, preferences: Tensor, items: Tensor) -> Tensor:
        """ŝ of preferences with items, [..., D] × [..., D] → [...]."""
        if not self._inner:
            return self.backbone.score(preferences, items)
        return (self._encode_preference(preferences) * self._encode_items(items)).sum(-1)

    def score_user(self, user: Tensor, items: Tensor) -> Tensor:
        """ŝ of one user's representation [D] for items [n, D]: [n]."""
        one, items = self._features(user[None], items)
        if self.preference == "itemfree":
            return self._match(one @ _reach(self.user_links(), self.item_links()), items)
        return self._match(F.linear(one, self.user_links()) + items @ self.item_links(), items)

    def user_loss(self, positive: Tensor, negative: Tensor) -> Tensor:
        """The pairwise loss with all other items as negatives."""
        return F.softplus(negative - positive[:, None]).mean()

    def own_scores(self) -> ScoreTable:
        """ŝ of all pairs; as an inner product, what the item itself adds to the preference is a bias of the item."""
        users, items = self._features(*self.backbone.reps())
        if self.preference == "itemfree":
            return self._itemfree_scores(users @ _reach(self.user_links(), self.item_links()), items)
        mapped, added = F.linear(users, self.user_links()), items @ self.item_links()
        if not self._inner:
            return _head_scores(self.backbone, mapped, items, added)
        encoded = self._encode_items(items)
        own = (self._encode_preference(added) * encoded).sum(-1)
        user = F.linear(mapped, self._near_identity(self.preference_change))
        return DotScores(to_numpy(user), to_numpy(encoded), to_numpy(own))

    def _itemfree_scores(self, preferences: Tensor, items: Tensor) -> ScoreTable:
        if not self._inner:
            return self.backbone.scores(preferences, items)
        user, item = self._encode_preference(preferences), self._encode_items(items)
        return DotScores(to_numpy(user), to_numpy(item))

    def diagnostics(self) -> dict[str, Any]:
        """How far the graph is from having no cycle, the share of links that are as good as none, and the strongest."""
        with torch.no_grad():
            links = self.item_links().abs()
            off_diagonal = max(links.numel() - len(links), 1)
            gone = int((links < _ZERO).sum()) - len(links)
            return {
                "cycles": float(acyclicity(links)),
                "zero_links": gone / off_diagonal,
                "strongest_link": float(links.max()),
            }


def _reach(user_links: Tensor, item_links: Tensor) -> Tensor:
    """Wᵀ(I + A + A² + A³), [D, D]: how the user's features alone reach those of the item (p̄_u = z_u · this)."""
    reached = start = user_links.T
    for _ in range(3):
        reached = torch.addmm(start, reached, item_links)
    return reached


def _head_scores(backbone: Backbone, mapped: Tensor, items: Tensor, own: Tensor) -> ScoreTable:
    """Scores of ``backbone`` where the user's representation is mapped[u] + own[i]."""
    table = backbone.scores(mapped, items)
    if not isinstance(table, NeuMFScores):

        def score(user: Tensor, item: Tensor) -> Tensor:
            item, added = item.chunk(2, -1)
            return backbone.score(user + added, item)

        return PairScores(score, mapped, torch.cat([items, own], -1))
    # NeuMF's product and its first layer are linear in the user, so that what an item adds can be had once per item.
    added = backbone.scores(own, items)
    nothing = backbone.scores(torch.zeros_like(own[:1]), items[:1])
    assert isinstance(added, NeuMFScores)
    assert isinstance(nothing, NeuMFScores)
    linear = with_bias(table.linear, np.einsum("id,id->i", added.linear.user_vectors, added.linear.item_vectors))
    assert isinstance(linear, DotScores)
    return replace(table, linear=linear, item_hidden=table.item_hidden + (added.user_hidden - nothing.user_hidden))
