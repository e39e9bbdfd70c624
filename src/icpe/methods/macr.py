"""MACR: two gates explain popularity and activity, and ranking removes the effect of the item's gate."""

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from icpe.backbones.base import uniform_matrix
from icpe.data.interactions import Interactions
from icpe.data.popularity import head_mask
from icpe.methods._parts.precomputed_gradient import with_gradients
from icpe.methods.base import Method
from icpe.ranking.tables import DotScores, ScaledScores, ScoreTable, to_numpy
from icpe.settings import setting
from icpe.train.abilities import Diagnostics, FoldIn, ItemBias, RankingChoice
from icpe.train.batch import Batch, Negatives
from icpe.train.method import MethodSettings, evaluation_mode

GRID = (0.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 80.0, 160.0)  # strengths that the first validation tries
_DEFAULT_STRENGTH = 40.0  # that of the public code, used until a validation has chosen one


class MACRSettings(MethodSettings):
    """Settings of :class:`MACR`."""

    item_weight: float = setting(
        1e-2, "Weight α of the loss of the item gate.", least=0.0, search=(1e-4, 1e-3, 1e-2, 1e-1)
    )
    user_weight: float = setting(
        1e-3, "Weight β of the loss of the user gate.", least=0.0, search=(1e-4, 1e-3, 1e-2, 1e-1)
    )
    strength: float | None = setting(
        None,
        "Strength c of the correction in ranking. Default: chosen at validations, and 40 before the first one.",
        least=0.0,
        ranking=True,
    )
    broadcast: bool = setting(
        False, "Whether to combine the gates of each row with the scores of all rows, as the public code does."
    )


class MACR(RankingChoice, ItemBias, Diagnostics, FoldIn, Method):
    """Model-agnostic counterfactual reasoning (Wei et al. 2021).

    A gate of the user and a gate of the item learn how far activity and popularity alone explain an interaction. In
    training they multiply the score, y_ui = s_ui·σ(ŷ_i)·σ(ŷ_u), and have losses of their own. Ranking subtracts what
    the gates alone would predict: (s_ui − c)·σ(ŷ_i)·σ(ŷ_u). The user's gate does not change the order of items, so
    ranking leaves it out.

    Example:
        >>> from icpe.backbones import MF
        >>> MACR(MF(), strength=30.0).settings.item_weight
        0.01
    """

    name: ClassVar[str] = "macr"
    Settings = MACRSettings
    settings: MACRSettings
    chosen: Tensor
    validated: Tensor

    @property
    def negatives(self) -> Negatives:
        """One for each positive."""
        return Negatives(1)

    def build(self, train: Interactions, rng: np.random.Generator) -> None:
        """Build the backbone, then the gates: one vector each, Glorot-uniform and without bias."""
        super().build(train, rng)
        self._counts = train.item_counts
        with torch.no_grad():
            width = self.backbone.reps()[1].shape[1]
        bound = (6 / (width + 1)) ** 0.5
        self.user_gate = uniform_matrix(1, width, bound, rng)
        self.item_gate = uniform_matrix(1, width, bound, rng)
        self.register_buffer("chosen", torch.tensor(_DEFAULT_STRENGTH))
        self.register_buffer("validated", torch.tensor(False))

    @property
    def strength(self) -> float:
        """The strength c that ranking uses: that of the settings, or the one that validation has chosen."""
        return float(self.chosen) if self.settings.strength is None else self.settings.strength

    def loss(self, batch: Batch, rng: torch.Generator | None = None) -> Tensor:
        """Return the losses of the gated score and of both gates, plus the L2 term."""
        settings = self.settings
        wanted = torch.cat([batch.items, batch.negatives[:, 0]])
        users, items = self.backbone.rows(batch.users, wanted, rng)
        weights = settings.item_weight, settings.user_weight
        if self.backbone.inner_product and not settings.broadcast:
            # Where the rows at hand are the trainable ones, the closed form includes the L2 term.
            reg = self.reg if self.backbone.trains_rows else 0.0
            loss = gated_loss_of_vectors(users, items, self.user_gate, self.item_gate, *weights, reg)
            return loss if reg else loss + self.penalty(batch)
        positives, negatives = items.chunk(2)
        loss = gated_loss(
            self.backbone.score(users, items.view(2, *users.shape)),
            F.linear(users, self.user_gate)[:, 0],
            F.linear(items, self.item_gate).view(2, -1),
            *weights,
            settings.broadcast,
        )
        return loss + self.penalty(batch, (users, positives, negatives))

    def unbiased_scores(self) -> ScoreTable:
        """Return s·σ(ŷ_i), as an inner product if s is one."""
        users, items = self.backbone.reps()
        gate = self.item_gates(items)
        if not self.backbone.inner_product:
            return ScaledScores(self.backbone.scores(users, items), to_numpy(gate))
        return DotScores(to_numpy(users), to_numpy(items * gate[:, None]))

    def item_bias(self) -> Tensor:
        """Return −c·σ(ŷ_i)."""
        return -self.strength * self.item_gates(self.backbone.reps()[1])

    def score_user(self, user: Tensor, items: Tensor) -> Tensor:
        """Return s·σ(ŷ_i). A new user's gate counts as open, which is the state that training leads to."""
        return self.backbone.score(user, items) * self.item_gates(items)

    def user_loss(self, positive: Tensor, negative: Tensor) -> Tensor:
        """Return the binary cross-entropy with all other items as negatives."""
        return F.softplus(-positive).mean() + F.softplus(negative).mean()

    def item_gates(self, items: Tensor) -> Tensor:
        """Return σ(ŷ_i) of representations, [..., D] → [...]."""
        return torch.sigmoid(F.linear(items, self.item_gate)[..., 0])

    def ranking_options(self) -> Sequence[dict[str, Any]]:
        """Return strengths to try: the whole grid at the first validation, then the present one and its neighbours."""
        if self.settings.strength is not None:
            return []
        values = neighbours(self.strength) if self.validated else GRID
        return [{"strength": value} for value in values]

    def choose_ranking(self, **settings: Any) -> None:
        """Rank with this strength from now on."""
        self.chosen.fill_(settings["strength"])
        self.validated.fill_(True)

    def ranking_choice(self) -> dict[str, Any]:
        """Return the choice in effect."""
        return {"strength": float(self.chosen)}

    def diagnostics(self) -> dict[str, Any]:
        """Return the mean gates of head items, niche items and users; working item gates follow popularity."""
        with evaluation_mode(self), torch.no_grad():
            users, items = self.backbone.reps()
            item_gates, user_gates = self.item_gates(items), torch.sigmoid(F.linear(users, self.user_gate))
        head = torch.from_numpy(head_mask(self._counts)).to(item_gates.device)
        return {
            "head_gate": float(item_gates[head].mean()),
            "niche_gate": float(item_gates[~head].mean()),
            "user_gate": float(user_gates.mean()),
        }


def neighbours(strength: float) -> list[float]:
    """Return a value of the grid together with its neighbours. Above the largest value, the grid continues by doubling.

    Example:
        >>> neighbours(0.0), neighbours(30.0), neighbours(160.0)
        ([0.0, 5.0], [20.0, 30.0, 40.0], [80.0, 160.0, 320.0])
    """
    grid = list(GRID)
    while grid[-1] <= strength:
        grid.append(2 * grid[-1])
    position = grid.index(strength)
    return grid[max(0, position - 1) : position + 2]


def gated_loss(
    scores: Tensor,
    user_logits: Tensor,
    item_logits: Tensor,
    item_weight: float,
    user_weight: float,
    broadcast: bool = False,
) -> Tensor:
    """Return the three losses of one negative for each positive.

    Args:
        scores: scores s of positives and negatives, [2, batch].
        user_logits: logits ŷ_u of the users' gates, [batch].
        item_logits: logits ŷ_i of the gates of positives and negatives, [2, batch].
        item_weight: weight α of the loss of the item gate.
        user_weight: weight β of the loss of the user gate.
        broadcast: whether to average over all combinations of one row's gates with another row's score.
    """
    gates = torch.sigmoid(item_logits) * torch.sigmoid(user_logits)
    gated = gates[:, :, None] * scores[:, None, :] if broadcast else gates * scores
    match = F.softplus(-gated[0]).mean() + F.softplus(gated[1]).mean()
    item = F.softplus(-item_logits[0]).mean() + F.softplus(item_logits[1]).mean()
    user = F.softplus(-user_logits).mean() + F.softplus(user_logits).mean()
    return match + item_weight * item + user_weight * user


def gated_loss_of_vectors(
    users: Tensor,
    items: Tensor,
    user_gate: Tensor,
    item_gate: Tensor,
    item_weight: float,
    user_weight: float,
    reg: float = 0.0,
) -> Tensor:
    """Return :func:`gated_loss` of scores that are inner products, with a closed-form gradient.

    Args:
        users: vectors of the users, [batch, D].
        items: vectors of the positives and then of the negatives, [2·batch, D].
        user_gate: ω_u, [1, D].
        item_gate: ω_i, [1, D].
        item_weight: weight α of the loss of the item gate.
        user_weight: weight β of the loss of the user gate.
        reg: adds λ/2 · (mean squared norm of users + of positives + of negatives).
    """
    with torch.no_grad():
        value, grads = _value_and_gradients(users, items, user_gate, item_gate, item_weight, user_weight, reg)
    return with_gradients(value, grads, (users, items, user_gate, item_gate))


def _value_and_gradients(
    users: Tensor,
    items: Tensor,
    user_gate: Tensor,
    item_gate: Tensor,
    item_weight: float,
    user_weight: float,
    reg: float,
) -> tuple[Tensor, tuple[Tensor, ...]]:
    size, width = users.shape
    pairs = items.view(2, size, width)
    scores = (users * pairs).sum(-1)
    user_logits, item_logits = users @ user_gate[0], (items @ item_gate[0]).view(2, size)
    user_gates, item_gates = torch.sigmoid(user_logits), torch.sigmoid(item_logits)
    gates = item_gates * user_gates
    sign = scores.new_tensor([[-1.0], [1.0]])
    match, item = sign * gates * scores, sign * item_logits
    value = F.softplus(match).sum() + item_weight * F.softplus(item).sum()
    value += user_weight * (F.softplus(user_logits) + F.softplus(-user_logits)).sum()

    match_grads = torch.sigmoid(match) * sign
    score_grads = match_grads * gates / size
    gate_slopes = match_grads * gates * scores
    item_logit_grads = (gate_slopes * (1 - item_gates) + item_weight * torch.sigmoid(item) * sign) / size
    user_logit_grads = (gate_slopes.sum(0) * (1 - user_gates) + user_weight * (2 * user_gates - 1)) / size
    user_grads = torch.addcmul(torch.outer(user_logit_grads, user_gate[0]), score_grads[0, :, None], pairs[0])
    user_grads.addcmul_(score_grads[1, :, None], pairs[1])
    item_grads = torch.outer(item_logit_grads.view(-1), item_gate[0])
    item_grads.view(2, size, width).addcmul_(score_grads[:, :, None], users)
    if reg:
        value += 0.5 * reg * (users.square().sum() + items.square().sum())
        user_grads.add_(users, alpha=reg / size)
        item_grads.add_(items, alpha=reg / size)
    gate_grads = (user_logit_grads[None] @ users, item_logit_grads.view(1, -1) @ items)
    return value / size, (user_grads, item_grads, *gate_grads)
