"""DICE: interest and conformity as two causes of a click, each with vectors of its own."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar, Literal, get_args

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from icpe.backbones.base import Backbone, DotBackbone
from icpe.backbones.channels import SIZES, Channels, Size
from icpe.data.interactions import Interactions
from icpe.methods._parts.distance_correlation import DistanceCorrelation
from icpe.ranking.tables import ScoreTable
from icpe.train.drawing import Drawn
from icpe.train.method import Batch, Method, Negatives, check_choice, check_count, check_number
from icpe.types import BoolArray, IntArray

Discrepancy = Literal["dcor", "l1", "l2"]
Infer = Literal["total", "interest"]


class DICE(Method):
    """Disentangling interest and conformity with causal embedding (Zheng et al. 2021).

    A click is explained by s^T = s^I + s^C, the logits of two channels of the backbone. Negatives are clearly more or
    clearly less popular than the positive. Who takes an item against a more popular one (o = 1) does so by interest;
    against a less popular one (o = 0), conformity explains it. With gaps g = s_ui − s_uj and ℓ(x) = softplus(−x):

    L = mean[ℓ(g^T) + a·o·ℓ(g^I) + b·(o·ℓ(−g^C) + (1−o)·ℓ(g^C))] + κ·(dCor of users' vectors + dCor of items' vectors)

    After every epoch, the margin, a and b are multiplied by ``decay``.

    Args:
        backbone: the model to train; it is used twice.
        size: of each channel, ``"half"`` the backbone's width (as many parameters as others have) or ``"full"``.
        negatives: for each positive (K).
        margin: how many more users a more popular item has (μ); by default what the data suggest, the third quartile
            of items' counts minus their median, at least 5.
        margin_scale: multiplies the margin.
        pool: a set of candidates with fewer items is not drawn from (ρ).
        a: weight of the interest loss.
        b: weight of the conformity loss; by default that of the interest loss.
        kappa: weight of the term that keeps the two channels apart (κ).
        decay: see above.
        discrepancy: ``"dcor"`` (distance correlation), or ``"l1"`` or ``"l2"``, minus the mean absolute or squared
            difference, which has no bound: small ``kappa`` only.
        dcor_rows: at most so many users, and items, of a batch enter that term; its cost grows with the square.
        infer: rank by ``"total"`` or by ``"interest"``; by default whichever is better in validation, and the total
            without validation. It may be changed after training.
        reg: λ of the L2 term; by default the backbone's.

    Raises:
        ConfigError: a setting is out of range, or the backbone has no form of half the width.

    Example:
        >>> from icpe.backbones import MF
        >>> DICE(MF(dim=16)).backbone.first.dim
        8
    """

    name: ClassVar[str] = "dice"
    serving: ClassVar[tuple[str, ...]] = ("infer",)
    search: ClassVar[dict[str, tuple[Any, ...]]] = {
        "a": (0.05, 0.1, 0.5, 1.0),
        "kappa": (0.0, 1e-3, 1e-2, 1e-1),
        "decay": (0.9, 0.95, 1.0),
        "margin_scale": (0.5, 1.0, 2.0),
    }
    backbone: Channels
    fade: Tensor
    by_interest: Tensor

    def __init__(
        self,
        backbone: Backbone,
        size: Size = "half",
        negatives: int = 4,
        margin: float | None = None,
        margin_scale: float = 1.0,
        pool: int = 40,
        a: float = 0.1,
        b: float | None = None,
        kappa: float = 0.01,
        decay: float = 0.9,
        discrepancy: Discrepancy = "dcor",
        dcor_rows: int = 256,
        infer: Infer | None = None,
        reg: float | None = None,
    ) -> None:
        check_choice("size", size, SIZES)
        super().__init__(Channels.of(backbone, size) if isinstance(backbone, Backbone) else backbone, reg)
        check_count("negatives", negatives)
        if margin is not None:
            check_number("margin", margin, least=0.0)
        if b is not None:
            check_number("b", b, least=0.0)
        for name, value in (("margin_scale", margin_scale), ("a", a), ("kappa", kappa)):
            check_number(name, value, least=0.0)
        check_count("pool", pool)
        check_count("dcor_rows", dcor_rows)
        check_number("decay", decay, least=0.0, most=1.0, open_left=True)
        check_choice("discrepancy", discrepancy, get_args(Discrepancy))
        if infer is not None:
            check_choice("infer", infer, get_args(Infer))
        self.size, self.negative_count, self.pool = size, negatives, pool
        self.margin, self.margin_scale, self.decay = margin, margin_scale, decay
        self.a, self.b, self.kappa = a, b, kappa
        self.discrepancy, self.dcor_rows = discrepancy, dcor_rows
        self.infer: Infer | None = infer

    def settings(self) -> dict[str, Any]:
        """Constructor arguments but the backbone; those that are left to the data are left out."""
        values = {
            "size": self.size,
            "negatives": self.negative_count,
            "margin": self.margin,
            "margin_scale": self.margin_scale,
            "pool": self.pool,
            "a": self.a,
            "b": self.b,
            "kappa": self.kappa,
            "decay": self.decay,
            "discrepancy": self.discrepancy,
            "dcor_rows": self.dcor_rows,
            "infer": self.infer,
            "reg": self.reg,
        }
        return {name: value for name, value in values.items() if value is not None}

    @property
    def negatives(self) -> Negatives:
        """As many uniform ones; they stand where there are no candidates by popularity."""
        return Negatives(self.negative_count)

    @property
    def ranks_by(self) -> Infer:
        """What ranking uses: as set, or as validation has chosen."""
        return self.infer or ("interest" if bool(self.by_interest) else "total")

    def build(self, train: Interactions, rng: np.random.Generator) -> None:
        """Both channels, and what is needed to draw by popularity."""
        super().build(train, rng)
        self.first_margin = self.margin_scale * (_usual_margin(train) if self.margin is None else self.margin)
        self._sampler = MarginSampler(train, self.pool)
        self._correlation = DistanceCorrelation()
        self.register_buffer("fade", torch.ones(()))  # decay to the power of the epoch
        self.register_buffer("by_interest", torch.zeros((), dtype=torch.bool))

    def draw(self, drawn: Drawn, epoch: int, rng: np.random.Generator) -> Drawn:
        """Negatives by popularity, with marks that are 1 for the more popular ones."""
        margin = self.first_margin * self.decay**epoch
        negatives, more = self._sampler.draw(drawn.users, drawn.items, drawn.negatives, margin, rng)
        return replace(drawn, negatives=negatives, marks=more.astype(np.int64))

    def renews(self, step: int, epoch_steps: int) -> bool:
        """At the beginning of every epoch but the first."""
        return step > 0 and step % epoch_steps == 0

    def renew(self, step: int, seed: int) -> None:
        """Let the weights of the two causes fade."""
        self.fade.mul_(self.decay)

    def loss(self, batch: Batch, rng: torch.Generator | None = None) -> Tensor:
        """The three pairwise losses, the term that keeps the channels apart, and the L2 term."""
        assert batch.marks is not None
        # A positive and its negatives in a row: no copy to put them together, and the order is a fair mixture.
        wanted = torch.cat([batch.items[:, None], batch.negatives], 1)
        codes = wanted.view(-1)
        channels = self.backbone.first, self.backbone.second
        rows = [channel.rows(batch.users, codes, rng) for channel in channels]
        (interest, one), (conformity, two) = (
            self._scored(channel, users, items.view(*wanted.shape, -1), batch)
            for channel, (users, items) in zip(channels, rows, strict=True)
        )
        loss = self._causes(interest[:, :1] - interest[:, 1:], conformity[:, :1] - conformity[:, 1:], batch.marks)
        if self.kappa:
            of_users, of_items = zip(*rows, strict=True)
            apart = self._dependence(of_users, batch.users) + self._dependence(of_items, codes)
            loss = loss + self.kappa * apart
        return loss + one + two if self.backbone.row_tables()[0] else loss + self.penalty(batch)

    def _scored(self, channel: Backbone, users: Tensor, items: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
        """Scores of users [batch, D] and items [batch, 1 + K, D]; and the L2 term, if these rows are the trainable."""
        if not channel.row_tables()[0]:
            return channel.score(users[:, None], items), users.new_zeros(())
        if isinstance(channel, DotBackbone):
            made: tuple[Tensor, Tensor] = _Products.apply(users, items, self.reg)  # type: ignore[no-untyped-call]
            return made
        return channel.score(users[:, None], items), self.penalty(batch, (users, items[:, 0], items[:, 1:]))

    def _causes(self, interest: Tensor, conformity: Tensor, marks: Tensor) -> Tensor:
        """The pairwise losses of gaps [batch, K] of both channels."""
        more, fade = marks.to(interest.dtype), float(self.fade)
        a, b = self.a * fade, (self.a if self.b is None else self.b) * fade
        total = F.softplus(-interest - conformity)
        return (total + a * more * F.softplus(-interest) + b * F.softplus((2 * more - 1) * conformity)).mean()

    def _dependence(self, rows: Sequence[Tensor], codes: Tensor) -> Tensor:
        """How little the channels differ for the distinct users or items of a batch."""
        places = first_places(codes, self.dcor_rows)
        first, second = (F.embedding(places, one) for one in rows)
        if self.discrepancy == "dcor":
            return self._correlation(first, second)
        gap = first - second
        return -(gap.abs() if self.discrepancy == "l1" else gap.square()).mean()

    def options(self) -> Sequence[dict[str, Any]]:
        """Both ways to rank, if none is set."""
        return [] if self.infer else [{"infer": one} for one in get_args(Infer)]

    def adopt(self, **serving: Any) -> None:
        """Rank by the total or by interest from now on."""
        self.by_interest.fill_(serving["infer"] == "interest")

    def diagnostics(self) -> dict[str, Any]:
        """The present margin and weights."""
        fade = float(self.fade)
        b = self.a if self.b is None else self.b
        return {"margin": self.first_margin * fade, "a": self.a * fade, "b": b * fade}

    def own_scores(self) -> ScoreTable:
        """Scores of both channels together, or of the first, which is interest."""
        users, items = self.backbone.reps()
        if self.ranks_by == "total":
            return self.backbone.scores(users, items)
        return self.backbone.first.scores(self.backbone.split(users)[0], self.backbone.split(items)[0])

    def score_user(self, user: Tensor, items: Tensor) -> Tensor:
        """The same for one user."""
        if self.ranks_by == "total":
            return self.backbone.score(user, items)
        return self.backbone.first.score(self.backbone.split(user)[0], self.backbone.split(items)[0])

    def user_loss(self, positive: Tensor, negative: Tensor) -> Tensor:
        """The pairwise loss against all other items."""
        return F.softplus(negative - positive[:, None]).mean()


class _Products(torch.autograd.Function):
    """Inner products of users [b, D] with items [b, 1 + K, D], and the L2 term of both, in few passes."""

    @staticmethod
    def forward(ctx: Any, users: Tensor, items: Tensor, reg: float) -> tuple[Tensor, Tensor]:
        size, count = len(users), items.shape[1] - 1
        shares = items.new_full((1 + count, 1), reg / (size * count))
        shares[0] = reg / size
        ctx.save_for_backward(users, items, shares)
        ctx.reg = reg
        own = items[:, 0].square().sum()
        others = torch.dot(items.reshape(-1), items.reshape(-1)) - own
        term = 0.5 * reg / size * (users.square().sum() + own + others / count)
        return (items * users[:, None]).sum(-1), term

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, of_scores: Tensor, of_term: Tensor) -> tuple[Tensor, Tensor, None]:
        users, items, shares = ctx.saved_tensors
        wide = of_scores[..., None]
        to_users = (wide * items).sum(1).addcmul_(users, of_term * ctx.reg / len(users))
        return to_users, (wide * users[:, None]).addcmul_(items, of_term * shares), None


class MarginSampler:
    """Draws items that are clearly more, or clearly less popular than a positive.

    With n the training counts and R_u what the user has used, for a positive (u, i) and a margin μ:
    P = {j ∉ R_u: n_j > n_i + μ} and L = {j ∉ R_u: n_j < n_i/2}. If P has fewer than ``pool`` items, all are drawn from
    L; else, if L has, all from P; else each from either with probability ½. Draws are uniform within a set and differ
    from each other. Where L would have to serve and has fewer items than are drawn, the given ones stay.

    Args:
        train: the training part.
        pool: the least size of a set (ρ); the number of draws where that is larger.
    """

    def __init__(self, train: Interactions, pool: int) -> None:
        self._pool, self._items = pool, len(train.items)
        self._counts, self._user_counts = train.item_counts, train.user_counts
        self._order = np.argsort(self._counts, kind="stable")  # from the least to the most popular
        self._sorted = self._counts[self._order].astype(np.float64)
        places = np.empty_like(self._order)
        places[self._order] = np.arange(self._items)
        self._starts = np.concatenate([[0], np.cumsum(self._user_counts)])
        # Where in that order a user's items are, user after user; and how many unused ones lie before each.
        self._used = np.sort(train.user.astype(np.int64) * self._items + places[train.item])
        self._unused_before = self._used - (np.arange(len(train)) - self._starts[train.user])

    def draw(
        self, users: IntArray, items: IntArray, given: IntArray, margin: float, rng: np.random.Generator
    ) -> tuple[IntArray, BoolArray]:
        """Negatives and whether they are the more popular ones.

        Args:
            users: int64 [batch].
            items: int64 [batch], the positives.
            given: int64 [batch, K], unused items that stay where the sets are too small; their mark says whether they
                are more popular than the positive at all.
            margin: μ.
            rng: to draw from.

        Returns:
            int64 [batch, K] and bool [batch, K].
        """
        counts, unused = self._counts[items], self._items - self._user_counts[users]
        less = self._unused_below(users, np.searchsorted(self._sorted, counts / 2))
        more = unused - self._unused_below(users, np.searchsorted(self._sorted, counts + margin, side="right"))
        enough = max(self._pool, given.shape[1])
        few_more, few_less = more < enough, less < enough
        marks = rng.random(given.shape) < 0.5
        marks &= ~few_more[:, None]
        marks |= (~few_more & few_less)[:, None]
        without = few_more & (less < given.shape[1])
        # Unused items of a user, in the order of popularity, are numbered: L is the first of them, P the last.
        start = np.where(marks, (unused - more)[:, None], 0)
        sizes = np.where(marks, more[:, None], less[:, None])
        numbers = _distinct(start, sizes, ~without, rng)
        drawn = self._order[self._unused_places(users, numbers)]
        drawn[without] = given[without]
        marks[without] = (self._counts[given] > counts[:, None])[without]
        return drawn, marks

    def _unused_below(self, users: IntArray, places: IntArray) -> IntArray:
        """How many unused items lie before a place in the order of popularity."""
        used = np.searchsorted(self._used, users * self._items + places) - self._starts[users]
        found: IntArray = places - used
        return found

    def _unused_places(self, users: IntArray, numbers: IntArray) -> IntArray:
        """Places in the order of popularity of the unused items with these numbers [batch, K]."""
        asked = (users * self._items)[:, None] + numbers
        used = np.searchsorted(self._unused_before, asked, side="right") - self._starts[users][:, None]
        found: IntArray = numbers + used
        return found


def _distinct(start: IntArray, sizes: IntArray, wanted: BoolArray, rng: np.random.Generator) -> IntArray:
    """Numbers from start to start + size, drawn uniformly [rows, K]; in wanted rows no number comes twice."""
    drawn: IntArray = start + (rng.random(sizes.shape) * sizes).astype(np.int64)
    earlier = np.tri(sizes.shape[1], k=-1, dtype=bool)
    rows = np.flatnonzero(wanted)
    while len(rows):
        ordered = np.sort(drawn[rows], axis=1)
        rows = rows[(ordered[:, 1:] == ordered[:, :-1]).any(1)]
        again = ((drawn[rows, :, None] == drawn[rows, None, :]) & earlier).any(2)
        fresh = start[rows] + (rng.random(again.shape) * sizes[rows]).astype(np.int64)
        drawn[rows] = np.where(again, fresh, drawn[rows])
    return drawn


def first_places(codes: Tensor, most: int) -> Tensor:
    """Where distinct codes int64 [n] come first, in ascending order and at most so many.

    Example:
        >>> first_places(torch.tensor([7, 3, 7, 5, 3]), most=2).tolist()
        [0, 1]
    """
    ordered, places = torch.sort(codes, stable=True)
    fresh = torch.ones_like(codes, dtype=torch.bool)
    torch.ne(ordered[1:], ordered[:-1], out=fresh[1:])
    return places[fresh].sort()[0][:most]


def _usual_margin(train: Interactions) -> float:
    """The third quartile of items' counts minus their median, at least 5."""
    median, upper = np.quantile(train.item_counts, [0.5, 0.75])
    return float(max(5.0, upper - median))
