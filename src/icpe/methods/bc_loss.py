"""BC loss: a softmax of cosines with a wider margin for what popularity does not explain."""

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Literal, get_args

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from icpe.backbones.base import Backbone, normal_table
from icpe.backbones.lightgcn import LightGCN
from icpe.data.interactions import Interactions
from icpe.data.popularity import head_mask
from icpe.errors import ConfigError, DataError
from icpe.methods._parts.distinct import distinct
from icpe.ranking.tables import DotScores, PairScores, ScoreTable, to_numpy
from icpe.rng import random_keys, stream
from icpe.train.drawing import SeenPairs, uniform_items
from icpe.train.method import Batch, Method, Negatives, check_choice, check_count, check_number
from icpe.types import IntArray

Score = Literal["dot", "cos"]
_EPS = 1e-8  # the least norm of a vector
_BIAS_LR, _BIAS_BATCH = 1e-3, 1024  # of the popularity model, whatever the run's own


class BCLoss(Method):
    """Bias-aware contrastive loss (Zhang et al. 2022).

    A popularity model learns pairs from nothing but how active the user and how popular the item is. Then the backbone
    learns cos θ_ui by a softmax in which a positive counts as cos(θ_ui + M_ui). The margin M_ui, between 0 and 1, is
    the smaller the better the popularity model explains the pair, so that niche pairs must be learnt more firmly.

    The popularity model is trained before the first step and then stays as it is.

    Args:
        backbone: the model to train.
        temperature: of the softmax (τ₁).
        bias_temperature: of the popularity model's softmax (τ₂).
        bias_epochs: how long the popularity model is trained (T₀).
        weight: the loss is multiplied by 1 − w, which matters only against the L2 term.
        negatives: N for each positive, among the items its user has not used; by default 128, or 32 where scores are
            no inner products.
        in_batch: train the backbone against the positives of all other rows instead; by default for LightGCN only. It
            needs a backbone with inner products. The popularity model has N uniform negatives all the same.
        score: rank by the backbone's score (``"dot"``) or the cosine (``"cos"``); it may be changed after training.
            None: chosen at validations, "dot" before the first.
        reg: λ of the L2 term; by default the backbone's.

    Example:
        >>> from icpe.backbones import MF, NeuMF
        >>> BCLoss(MF()).settings()["negatives"], BCLoss(NeuMF()).settings()["negatives"]
        (128, 32)
    """

    name: ClassVar[str] = "bc_loss"
    label: ClassVar[str] = "BC-Loss"
    serving: ClassVar[tuple[str, ...]] = ("score",)
    search: ClassVar[dict[str, tuple[Any, ...]]] = {
        "temperature": (0.05, 0.07, 0.1, 0.15, 0.2),
        "bias_temperature": (0.1, 0.2),
        "negatives": (32, 64, 128),
        "bias_epochs": (3, 5, 10),
    }
    activity: Tensor
    popularity: Tensor
    user_level: Tensor
    item_level: Tensor
    by_cosine: Tensor

    def __init__(
        self,
        backbone: Backbone,
        temperature: float = 0.1,
        bias_temperature: float = 0.1,
        bias_epochs: int = 5,
        weight: float = 0.5,
        negatives: int | None = None,
        in_batch: bool | None = None,
        score: Score | None = None,
        reg: float | None = None,
    ) -> None:
        super().__init__(backbone, reg)
        check_number("temperature", temperature, least=0.0, open_left=True)
        check_number("bias_temperature", bias_temperature, least=0.0, open_left=True)
        check_count("bias_epochs", bias_epochs)
        check_number("weight", weight, least=0.0, most=0.999)
        if in_batch not in (None, True, False):
            raise ConfigError(f"in_batch is {in_batch!r}; expected True, False or None")
        if score is not None:
            check_choice("score", score, get_args(Score))
        self.temperature, self.bias_temperature = temperature, bias_temperature
        self.bias_epochs, self.weight, self.score = bias_epochs, weight, score
        self.negative_count = (128 if _has_vectors(backbone) else 32) if negatives is None else negatives
        check_count("negatives", self.negative_count)
        self.in_batch = isinstance(backbone, LightGCN) if in_batch is None else in_batch
        if self.in_batch and not _has_vectors(backbone):
            raise ConfigError(
                f"{backbone.label} scores pairs one by one, and in_batch=True needs all pairs of a batch; "
                "take a backbone with inner products (mf, lightgcn), or in_batch=False"
            )

    def settings(self) -> dict[str, Any]:
        """Constructor arguments but the backbone."""
        return {
            "temperature": self.temperature,
            "bias_temperature": self.bias_temperature,
            "bias_epochs": self.bias_epochs,
            "weight": self.weight,
            "negatives": self.negative_count,
            "in_batch": self.in_batch,
            "score": self.score,
            "reg": self.reg,
        }

    @property
    def negatives(self) -> Negatives:
        """N for each positive, or none where the batch has them."""
        return Negatives(0, shared=True) if self.in_batch else Negatives(self.negative_count)

    def build(self, train: Interactions, rng: np.random.Generator) -> None:
        """The backbone, then the popularity model: a row for each number of pairs that users, or items, have.

        Raises:
            ConfigError: the backbone knows no angle between a user and an item.
            DataError: a user has used every item, so that no negative can be drawn.
        """
        if int(train.user_counts.max()) >= len(train.items):
            user = train.users[int(train.user_counts.argmax())]
            raise DataError(
                f"user {user!r} has used all {len(train.items)} items, so that none is left to stand against them. "
                "Remove such users"
            )
        super().build(train, rng)
        self._train = train
        with torch.no_grad():
            users, items = self.backbone.reps()
        if not _has_vectors(self.backbone):
            self._check_linear(users[:1], items[:1])
        for name, level, counts in (
            ("activity", "user_level", train.user_counts),
            ("popularity", "item_level", train.item_counts),
        ):
            distinct, levels = np.unique(counts, return_inverse=True)
            width = items.shape[1]
            start = normal_table(len(distinct), width, (2 / (len(distinct) + width)) ** 0.5, rng)
            self.register_buffer(name, start.detach())
            self.register_buffer(level, torch.from_numpy(levels.astype(np.int64)), persistent=False)
        self.register_buffer("by_cosine", torch.tensor(False))

    def _check_linear(self, user: Tensor, item: Tensor) -> None:
        with torch.no_grad():
            phi = self.backbone.interact(user, item)
            phi = torch.linspace(0.5, 2, phi.shape[-1], dtype=phi.dtype, device=phi.device)
            phi = torch.stack([phi, -phi])
            direction, start = self._direction(phi)
            if torch.allclose(self.backbone.out(phi) - start, phi @ direction, rtol=1e-3, atol=1e-4):
                return
        raise ConfigError(
            f"the score of {self.backbone.label} is not linear in its interaction vector, so that there is no angle to "
            "add a margin to; take mf, lightgcn or neumf"
        )

    def renews(self, step: int, epoch_steps: int) -> bool:
        """Once, before the first step."""
        return step == 0

    def renew(self, step: int, seed: int) -> None:
        """Train the popularity model, on the CPU and with an optimiser of its own; the backbone stays as it is."""
        tables = [table.detach().cpu().clone().requires_grad_() for table in (self.activity, self.popularity)]
        optimizer = torch.optim.Adam(tables, lr=_BIAS_LR)
        of_user, of_item = self.user_level.cpu(), self.item_level.cpu()
        with torch.enable_grad():
            for users, items, negatives in self._bias_batches(seed):
                # All there is to know are the cosines of all levels, and there are far fewer of them than pairs.
                activity, popularity = (F.normalize(table, dim=-1, eps=_EPS) for table in tables)
                logits = activity @ popularity.T / self.bias_temperature
                pull = softmax_pull(logits.detach(), of_user[users], of_item[items], of_item[negatives])
                optimizer.zero_grad()
                torch.autograd.backward(logits, pull)
                optimizer.step()
        self.activity.copy_(tables[0].detach())
        self.popularity.copy_(tables[1].detach())

    def _bias_batches(self, seed: int) -> Iterator[tuple[IntArray, IntArray, IntArray]]:
        """Codes of users, of items and of negatives for all steps of the popularity model.

        The negatives are uniform even where the backbone takes those of its batch: these are as popular as the
        positives, and a model that knows nothing but popularity cannot tell them apart.
        """
        train, seen = self._train, SeenPairs(self._train)
        for epoch in range(self.bias_epochs):
            order = stream(seed, f"bc_loss/shuffle/{epoch}").permutation(len(train))
            for first in range(0, len(train), _BIAS_BATCH):
                rows = order[first : first + _BIAS_BATCH]
                shape = (len(rows), self.negative_count)
                keys = random_keys(seed, f"bc_loss/negatives/{epoch}/{first}", shape[0] * shape[1]).reshape(shape)
                negatives = uniform_items(keys, len(train.items))
                seen.replace(train.user[rows], negatives, keys)
                yield train.user[rows], train.item[rows], negatives

    def margins(self, users: Tensor, items: Tensor) -> Tensor:
        """M = 1 − σ(P·Q) of pairs of codes, with the vectors as long as they are: int [n] × [n] → [n]."""
        with torch.no_grad():
            activity = F.embedding(self.user_level[users], self.activity)
            popularity = F.embedding(self.item_level[items], self.popularity)
            return torch.sigmoid(-(activity * popularity).sum(-1))

    def loss(self, batch: Batch, rng: torch.Generator | None = None) -> Tensor:
        """The softmax with margins plus the L2 term."""
        from icpe.methods._parts import margin as softmax  # late: numba takes a while to import

        margin = self.margins(batch.users, batch.items)
        # A user's and an item's row is taken once, however often the batch has it.
        wanted, places = distinct(torch.cat([batch.items[:, None], batch.negatives], 1), self.backbone.items)
        if self.in_batch:
            callers, caller = distinct(batch.users, self.backbone.users)
            vectors = self.backbone.vectors(*self.backbone.rows(callers, wanted, rng))
            assert vectors is not None
            loss = softmax.in_batch_with_margin(*vectors, (caller, places[:, 0]), margin, self.temperature)
            return (1 - self.weight) * loss + self.penalty(batch)
        users, items = self.backbone.rows(batch.users, wanted, rng)
        vectors = self.backbone.vectors(users, items)
        if vectors is None:
            cosines = self._cosine(users[:, None], F.embedding(places, items))
            loss = softmax.softmax_with_margin(cosines, margin, self.temperature)
        else:
            loss = softmax.vectors_with_margin(*vectors, places[:, 0], places[:, 1:], margin, self.temperature)
        return (1 - self.weight) * loss + self._penalty_of_distinct(batch, wanted, places, users, items)

    def _penalty_of_distinct(
        self, batch: Batch, wanted: Tensor, places: Tensor, users: Tensor, items: Tensor
    ) -> Tensor | float:
        """:meth:`penalty`, each item's row counted as often as it is in the batch."""
        if self.reg == 0:
            return 0.0
        if not self.backbone.row_tables()[0]:
            users, items = self.backbone.ego_users(batch.users), self.backbone.ego_items(wanted)
        size, count = batch.negatives.shape
        share = torch.bincount(places[:, 0], minlength=len(wanted)) / size
        share += torch.bincount(places[:, 1:].reshape(-1), minlength=len(wanted)) / (size * count)
        norms = items.square().sum(-1)
        return 0.5 * self.reg * (users.square().sum() / size + share.to(norms) @ norms)

    def _cosine(self, users: Tensor, items: Tensor) -> Tensor:
        """Cosine between the interaction vector and the direction in which the score grows, [..., D]² → [...]."""
        phi = self.backbone.interact(users, items)
        direction, _ = self._direction(phi)
        return F.normalize(phi, dim=-1, eps=_EPS) @ F.normalize(direction, dim=-1, eps=_EPS)

    def _direction(self, phi: Tensor) -> tuple[Tensor, Tensor]:
        """The direction h and the constant b of a score h·φ + b: [D_φ] and one number."""
        start = self.backbone.out(phi.new_zeros(phi.shape[-1]))
        return self.backbone.out(torch.eye(phi.shape[-1], dtype=phi.dtype, device=phi.device)) - start, start

    @property
    def ranks_by(self) -> Score:
        """What ranking uses: "dot" or "cos"."""
        return self.score or ("cos" if self.by_cosine else "dot")

    def own_scores(self) -> ScoreTable:
        """Scores of the backbone, or cosines."""
        users, items = self.backbone.reps()
        if self.ranks_by == "dot":
            return self.backbone.scores(users, items)
        vectors = self.backbone.vectors(users, items)
        if vectors is None:
            return PairScores(self._cosine, users, items)
        return DotScores(*(to_numpy(F.normalize(one, dim=-1, eps=_EPS)) for one in vectors))

    def score_user(self, user: Tensor, items: Tensor) -> Tensor:
        """Scores of the backbone, or cosines."""
        if self.ranks_by == "dot":
            return self.backbone.score(user, items)
        vectors = self.backbone.vectors(user[None], items)
        if vectors is None:
            return self._cosine(user, items)
        return F.normalize(vectors[1], dim=-1, eps=_EPS) @ F.normalize(vectors[0], dim=-1, eps=_EPS)[0]

    def user_loss(self, positive: Tensor, negative: Tensor) -> Tensor:
        """The softmax against all other items, without a margin: nothing is known of the user's activity."""
        temperature = self.temperature if self.ranks_by == "cos" else 1.0
        others = torch.logsumexp(negative / temperature, 0)
        return (torch.logaddexp(positive / temperature, others) - positive / temperature).mean()

    def options(self) -> Sequence[dict[str, Any]]:
        """Both kinds of score, unless one is set."""
        return [] if self.score is not None else [{"score": kind} for kind in get_args(Score)]

    def adopt(self, **serving: Any) -> None:
        """Rank by this kind of score from now on."""
        self.by_cosine.fill_(serving["score"] == "cos")

    def diagnostics(self) -> dict[str, Any]:
        """Mean margins of training pairs with head items and with niche items."""
        train = self._train
        margins = torch.sigmoid(-self.activity @ self.popularity.T)
        users, items = (torch.from_numpy(one.astype(np.int64)).to(margins.device) for one in (train.user, train.item))
        each = margins[self.user_level[users], self.item_level[items]]
        head = torch.from_numpy(head_mask(train.item_counts)).to(margins.device)[items]
        means = {"head_margin": each[head], "niche_margin": each[~head]}
        return {name: float(part.mean()) if len(part) else None for name, part in means.items()}


def softmax_pull(logits: Tensor, users: Tensor, items: Tensor, negatives: Tensor) -> Tensor:
    """Gradient of the mean cross-entropy of a batch at the logits of all levels: expected less observed pairs.

    Args:
        logits: [levels of users, levels of items].
        users: levels of the users, int64 [batch].
        items: levels of their positives, int64 [batch].
        negatives: levels of the negatives, int64 [batch, N].

    Returns:
        In the shape of the logits.
    """
    places = torch.cat([items[:, None], negatives], 1).add_(users[:, None] * logits.shape[1])
    chance = torch.softmax(logits.reshape(-1)[places], 1)
    chance[:, 0] -= 1
    pull = torch.bincount(places.view(-1), chance.view(-1), minlength=logits.numel())
    return (pull / len(users)).to(logits).view_as(logits)


def _has_vectors(backbone: Backbone) -> bool:
    return type(backbone).vectors is not Backbone.vectors
