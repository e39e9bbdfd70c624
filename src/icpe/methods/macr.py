"""MACR: two gates take the blame for popularity and activity, and ranking takes the item's own effect back."""

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from icpe.backbones.base import Backbone, uniform_matrix
from icpe.data.interactions import Interactions
from icpe.data.popularity import head_mask
from icpe.errors import ConfigError
from icpe.methods._parts.precomputed_gradient import with_gradients
from icpe.methods.icpe.gram import evaluating
from icpe.ranking.tables import DotScores, ScaledScores, ScoreTable, to_numpy
from icpe.train.method import Batch, Method, Negatives, check_number

GRID = (0.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 80.0, 160.0)  # values of c that a first validation tries
_USUAL = 40.0  # c of the public code, where no validation has chosen one


class MACR(Method):
    """Model-agnostic counterfactual reasoning (Wei et al. 2021).

    A gate of the user and one of the item say how far activity and popularity alone explain a click. In training they
    multiply the score, y_ui = s_ui·σ(ŷ_i)·σ(ŷ_u), with losses of their own; ranking subtracts what the gates alone
    would give: (s_ui − c)·σ(ŷ_i)·σ(ŷ_u). The user's gate cannot change a ranking and is left out of it.

    Args:
        backbone: the model to train.
        alpha: weight of the item gate's loss (α).
        beta: weight of the user gate's loss (β).
        c: strength in ranking; it may be changed after training. None: chosen at validations, 40 before the first.
        broadcast: average over the gates of each row with the scores of all rows, as the public code does.
        reg: λ of the L2 term; by default the backbone's.

    Example:
        >>> from icpe.backbones import MF
        >>> MACR(MF(), c=30.0).settings()["alpha"]
        0.01
    """

    name: ClassVar[str] = "macr"
    serving: ClassVar[tuple[str, ...]] = ("c",)
    search: ClassVar[dict[str, tuple[Any, ...]]] = {
        "alpha": (1e-4, 1e-3, 1e-2, 1e-1),
        "beta": (1e-4, 1e-3, 1e-2, 1e-1),
    }
    chosen: Tensor
    validated: Tensor

    def __init__(
        self,
        backbone: Backbone,
        alpha: float = 1e-2,
        beta: float = 1e-3,
        c: float | None = None,
        broadcast: bool = False,
        reg: float | None = None,
    ) -> None:
        super().__init__(backbone, reg)
        check_number("alpha", alpha, least=0.0)
        check_number("beta", beta, least=0.0)
        if c is not None:
            check_number("c", c, least=0.0)
        if not isinstance(broadcast, bool):
            raise ConfigError(f"broadcast is {broadcast!r}; expected True or False")
        self.alpha, self.beta, self.c, self.broadcast = alpha, beta, c, broadcast

    def settings(self) -> dict[str, Any]:
        """Constructor arguments but the backbone."""
        return {
            "alpha": self.alpha,
            "beta": self.beta,
            "c": self.c,
            "broadcast": self.broadcast,
            "reg": self.reg,
        }

    @property
    def negatives(self) -> Negatives:
        """One for each positive."""
        return Negatives(1)

    def build(self, train: Interactions, rng: np.random.Generator) -> None:
        """The backbone, then the gates: a vector each, Glorot-uniform and without bias."""
        super().build(train, rng)
        self._counts = train.item_counts
        with torch.no_grad():
            width = self.backbone.reps()[1].shape[1]
        bound = (6 / (width + 1)) ** 0.5
        self.user_gate = uniform_matrix(1, width, bound, rng)
        self.item_gate = uniform_matrix(1, width, bound, rng)
        self.register_buffer("chosen", torch.tensor(_USUAL))
        self.register_buffer("validated", torch.tensor(False))

    @property
    def strength(self) -> float:
        """The c that ranking uses."""
        return float(self.chosen) if self.c is None else self.c

    def loss(self, batch: Batch, rng: torch.Generator | None = None) -> Tensor:
        """The losses of the gated score and of both gates, plus the L2 term."""
        users, both = self.backbone.rows(batch.users, torch.cat([batch.items, batch.negatives[:, 0]]), rng)
        vectors = self.backbone.vectors(users, both)
        if not self.broadcast and vectors is not None and vectors[0] is users and vectors[1] is both:
            # Where the rows at hand are the trainable ones, the L2 term is made along with the loss.
            reg = self.reg if self.backbone.row_tables()[0] else 0.0
            loss = gated_loss_of_vectors(users, both, self.user_gate, self.item_gate, self.alpha, self.beta, reg)
            return loss if reg else loss + self.penalty(batch)
        items, negatives = both.chunk(2)
        loss = gated_loss(
            self.backbone.score(users, both.view(2, *users.shape)),
            F.linear(users, self.user_gate)[:, 0],
            F.linear(both, self.item_gate).view(2, -1),
            self.alpha,
            self.beta,
            self.broadcast,
        )
        return loss + self.penalty(batch, (users, items, negatives))

    def own_scores(self) -> ScoreTable:
        """s·σ(ŷ_i); an inner product where s is one."""
        users, items = self.backbone.reps()
        gate = self.item_gates(items)
        vectors = self.backbone.vectors(users, items)
        if vectors is None:
            return ScaledScores(self.backbone.scores(users, items), to_numpy(gate))
        return DotScores(to_numpy(vectors[0]), to_numpy(vectors[1] * gate[:, None]))

    def item_bias(self) -> Tensor:
        """−c·σ(ŷ_i)."""
        return -self.strength * self.item_gates(self.backbone.reps()[1])

    def score_user(self, user: Tensor, items: Tensor) -> Tensor:
        """s·σ(ŷ_i); somebody new is fitted as if the user's gate stood open, which is where training brings it."""
        return self.backbone.score(user, items) * self.item_gates(items)

    def item_gates(self, items: Tensor) -> Tensor:
        """σ(ŷ_i) of representations, [..., D] → [...]."""
        return torch.sigmoid(F.linear(items, self.item_gate)[..., 0])

    def options(self) -> Sequence[dict[str, Any]]:
        """Values of c to try: the whole grid at the first validation, then the present one and its neighbours."""
        if self.c is not None:
            return []
        if not self.validated:
            return [{"c": value} for value in GRID]
        return [{"c": value} for value in neighbours(self.strength)]

    def adopt(self, **serving: Any) -> None:
        """Rank with this c from now on."""
        self.chosen.fill_(serving["c"])
        self.validated.fill_(True)

    def diagnostics(self) -> dict[str, Any]:
        """The mean gate of head items, of niche items and of users; the gates follow popularity where they work."""
        with evaluating(self), torch.no_grad():
            users, items = self.backbone.reps()
            of_items, of_users = self.item_gates(items), torch.sigmoid(F.linear(users, self.user_gate))
        head = torch.from_numpy(head_mask(self._counts)).to(of_items.device)
        return {
            "head_gate": float(of_items[head].mean()),
            "niche_gate": float(of_items[~head].mean()),
            "user_gate": float(of_users.mean()),
        }


def neighbours(c: float) -> list[float]:
    """A value of the grid between its neighbours; beyond the grid's upper end, values double.

    Example:
        >>> neighbours(0.0), neighbours(30.0), neighbours(160.0)
        ([0.0, 5.0], [20.0, 30.0, 40.0], [80.0, 160.0, 320.0])
    """
    grid = list(GRID)
    while grid[-1] <= c:
        grid.append(2 * grid[-1])
    place = grid.index(c)
    return grid[max(0, place - 1) : place + 2]


def gated_loss(
    scores: Tensor, of_user: Tensor, of_item: Tensor, alpha: float, beta: float, broadcast: bool = False
) -> Tensor:
    """The three losses of one negative for each positive.

    Args:
        scores: of positives and negatives (s), [2, batch].
        of_user: logits of the users' gates (ŷ_u), [batch].
        of_item: logits of the gates of positives and negatives (ŷ_i), [2, batch].
        alpha: weight of the item gate's loss.
        beta: weight of the user gate's loss.
        broadcast: average over all pairs of a row's gates with a row's score.
    """
    gates = torch.sigmoid(of_item) * torch.sigmoid(of_user)
    gated = gates[:, :, None] * scores[:, None, :] if broadcast else gates * scores
    match = F.softplus(-gated[0]).mean() + F.softplus(gated[1]).mean()
    item = F.softplus(-of_item[0]).mean() + F.softplus(of_item[1]).mean()
    user = F.softplus(-of_user).mean() + F.softplus(of_user).mean()
    return match + alpha * item + beta * user


def gated_loss_of_vectors(
    users: Tensor, both: Tensor, user_gate: Tensor, item_gate: Tensor, alpha: float, beta: float, reg: float = 0.0
) -> Tensor:
    """:func:`gated_loss` where scores are inner products, with a closed-form gradient.

    Args:
        users: vectors of the users, [batch, D].
        both: vectors of the positives and then of the negatives, [2·batch, D].
        user_gate: ω_u, [1, D].
        item_gate: ω_i, [1, D].
        alpha: weight of the item gate's loss.
        beta: weight of the user gate's loss.
        reg: adds λ/2 · (mean squared norm of users + of positives + of negatives).
    """
    with torch.no_grad():
        value, grads = _value_and_gradients(users, both, user_gate, item_gate, alpha, beta, reg)
    return with_gradients(value, grads, (users, both, user_gate, item_gate))


def _value_and_gradients(
    users: Tensor, both: Tensor, user_gate: Tensor, item_gate: Tensor, alpha: float, beta: float, reg: float
) -> tuple[Tensor, tuple[Tensor, ...]]:
    size, width = users.shape
    pairs = both.view(2, size, width)
    scores = (users * pairs).sum(-1)
    of_user, of_item = users @ user_gate[0], (both @ item_gate[0]).view(2, size)
    user_open, item_open = torch.sigmoid(of_user), torch.sigmoid(of_item)
    open_ = item_open * user_open
    sign = scores.new_tensor([[-1.0], [1.0]])
    match, item = sign * open_ * scores, sign * of_item
    value = F.softplus(match).sum() + alpha * F.softplus(item).sum()
    value += beta * (F.softplus(of_user) + F.softplus(-of_user)).sum()

    to_match = torch.sigmoid(match) * sign
    to_scores = to_match * open_ / size
    along = to_match * open_ * scores
    to_item = (along * (1 - item_open) + alpha * torch.sigmoid(item) * sign) / size
    to_user = (along.sum(0) * (1 - user_open) + beta * (2 * user_open - 1)) / size
    pull = reg / size
    user_grads = torch.addcmul(torch.outer(to_user, user_gate[0]), to_scores[0, :, None], pairs[0])
    user_grads.addcmul_(to_scores[1, :, None], pairs[1])
    both_grads = torch.outer(to_item.view(-1), item_gate[0])
    both_grads.view(2, size, width).addcmul_(to_scores[:, :, None], users)
    if reg:
        value += 0.5 * reg * (users.square().sum() + both.square().sum())
        user_grads.add_(users, alpha=pull)
        both_grads.add_(both, alpha=pull)
    gate_grads = (to_user[None] @ users, to_item.view(1, -1) @ both)
    return value / size, (user_grads, both_grads, *gate_grads)
