"""Pareto MTL (Lin et al., NeurIPS 2019) for two losses: of head and of niche items, by a preference between them."""

from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from icpe.backbones.base import Backbone
from icpe.data.interactions import Interactions
from icpe.data.popularity import head_mask
from icpe.errors import ConfigError
from icpe.methods.icpe.gram import evaluating, gram_by_autograd
from icpe.methods.normal import Normal
from icpe.pareto import min_norm_weights
from icpe.rng import stream
from icpe.train.method import Batch, check_count
from icpe.types import FloatArray

_NEAR = 0.01  # of the length of the losses: a constraint nearer than this counts as active
_RENEWALS = 4  # of the weights in an epoch


def preference_vectors(count: int) -> FloatArray:
    """Unit vectors spread over the inside of the first quadrant, float64 [count, 2]; the first is along the first axis.

    Example:
        >>> np.degrees(np.arctan2(*preference_vectors(3).T[::-1])).round(6).tolist()
        [15.0, 45.0, 75.0]
    """
    angles = (np.arange(count) + 0.5) / count * np.pi / 2
    return np.stack([np.cos(angles), np.sin(angles)], axis=1)


def violations(losses: FloatArray, preferences: FloatArray, chosen: int) -> FloatArray:
    """c_j = (u_j − u_k)·L for all j ≠ k, as shares of ‖L‖, float64 [preferences − 1].

    None is above 0 where the losses point more in the chosen direction k than in any other.
    """
    others = np.delete(preferences, chosen, axis=0) - preferences[chosen]
    return np.asarray(others @ losses / max(float(np.linalg.norm(losses)), 1e-12))


def step_weights(
    losses: FloatArray, gram: FloatArray, preferences: FloatArray, chosen: int, feasibility: bool = False
) -> FloatArray:
    """Factors of the two losses in a step of Pareto MTL, float64 [2]; their absolute values add up to 1.

    The step goes along the shortest vector in the hull of the gradients of both losses and of the active constraints,
    λ_i + Σ_j β_j (u_ji − u_ki) in terms of the losses. A factor may be below 0: that loss gives way.

    Args:
        losses: L, [2].
        gram: inner products of the losses' gradients, [2, 2]; constraints combine the same two gradients.
        preferences: unit vectors, [preferences, 2].
        chosen: which of them (k).
        feasibility: descend the violated constraints alone, where there are some.

    Example:
        >>> step_weights(np.array([1.0, 1.0]), np.eye(2), preference_vectors(3), chosen=1).round(9).tolist()
        [0.5, 0.5]
    """
    others = np.delete(preferences, chosen, axis=0) - preferences[chosen]
    values = violations(losses, preferences, chosen)
    if feasibility and (values > 0).any():
        combined = others[values > 0]
    else:
        combined = np.concatenate([np.eye(2), others[values >= -_NEAR]])
    factors = min_norm_weights(combined @ gram @ combined.T) @ combined
    size = float(np.abs(factors).sum())
    # A combination of length 0 is Pareto-stationary: nothing is preferred.
    return np.asarray(factors / size) if size > 1e-9 else np.full(2, 0.5)


class PreferenceTraining(Normal):
    """Normal training with bce, in which the mean losses of head and of niche positives weigh as Pareto MTL says.

    Minimised is a_h·L_h + a_n·L_n + L⁻ with a_h + a_n = 1: Normal has a_h = the head's share of the positives. The
    Gram matrix is of the gradients on the shared parameters, where the two losses meet, at all training pairs (at most
    65,536 drawn ones where gradients are taken at rows), renewed four times an epoch: each renewal is a pass over
    these pairs, and seldom ones notice late that a constraint has become active. The factors hold for all parameters,
    so that what is minimised is one loss. Where one is below 0 it is 0 here, and the other 1: the items' own rows,
    which the matrix does not see, would be trained to raise that loss, and positives would weigh less against
    negatives.

    Args:
        backbone: the model to train.
        preferences: unit vectors over (head loss, niche loss), [preferences, 2].
        chosen: which of them.
        warm_up: steps during which constraints alone are descended until they hold.
        negatives: as of :class:`Normal`.
        reg: as of :class:`Normal`.
    """

    name: ClassVar[str] = "pareto_mtl"
    item_weight: Tensor
    losses: Tensor

    def __init__(
        self,
        backbone: Backbone,
        preferences: FloatArray,
        chosen: int,
        warm_up: int = 0,
        negatives: int = 1,
        reg: float | None = None,
    ) -> None:
        super().__init__(backbone, "bce", negatives, reg=reg)
        check_count("preferences", len(preferences))
        if not 0 <= chosen < len(preferences):
            raise ConfigError(f"chosen is {chosen}; expected a number from 0 to {len(preferences) - 1}")
        self.preferences, self.chosen, self.warm_up = preferences, chosen, warm_up

    def settings(self) -> dict[str, Any]:
        """Constructor arguments but the backbone."""
        return {
            "preferences": self.preferences.tolist(),
            "chosen": self.chosen,
            "warm_up": self.warm_up,
            "negatives": self.negative_count,
            "reg": self.reg,
        }

    def build(self, train: Interactions, rng: np.random.Generator) -> None:
        """The backbone, and who is head and who is niche."""
        super().build(train, rng)
        self._train = train
        self._labels = np.where(head_mask(train.item_counts), 0, 1)
        self._pairs = np.bincount(self._labels[train.item], minlength=2)
        self.register_buffer("item_weight", torch.ones(len(train.items)))
        self.register_buffer("losses", torch.zeros(2, dtype=torch.float64))

    def loss(self, batch: Batch, rng: torch.Generator | None = None) -> Tensor:
        """Normal's loss with weighted positives."""
        wanted = torch.cat([batch.items, batch.negatives.reshape(-1)])
        users, both = self.backbone.rows(batch.users, wanted, rng)
        weight, vectors = self.item_weight[batch.items], self.backbone.vectors(users, both)
        if vectors is not None:
            ego = vectors[0] is users and vectors[1] is both
            return self._loss_of_vectors(batch, *vectors, ego, weight=weight)
        items, drawn = both[: len(users)], both[len(users) :]
        positive = self.backbone.score(users, items)
        negative = self.backbone.score(users[:, None], drawn.view(*batch.negatives.shape, -1))
        total = (weight * F.softplus(-positive)).mean() + F.softplus(negative).mean()
        return total + self.penalty(batch, (users, items, drawn))

    def renews(self, step: int, epoch_steps: int) -> bool:
        """Four times an epoch."""
        return step % max(1, epoch_steps // _RENEWALS) == 0

    def renew(self, step: int, seed: int) -> None:
        """Losses and Gram matrix of the present parameters, and the factors that follow."""
        gram = self._gram(seed, step)
        factors = step_weights(
            self.losses.cpu().numpy(), gram, self.preferences, self.chosen, feasibility=step < self.warm_up
        )
        share = self._pairs / self._pairs.sum()
        kept = np.maximum(factors, 0)
        weights = (kept / max(kept.sum(), 1e-9) / np.maximum(share, 1e-9))[self._labels]
        self.item_weight.copy_(torch.from_numpy(weights))

    def _gram(self, seed: int, step: int) -> FloatArray:
        """Inner products of the gradients of the two mean losses; the losses themselves are kept on the way."""
        at_rows = bool(self.backbone.row_tables()[0])
        sums, seen = torch.zeros(2, dtype=torch.float64), np.zeros(2)

        def losses(users: Tensor, items: Tensor) -> tuple[Tensor, Tensor]:
            rows, theirs = self.backbone.rows(users, items)
            each = F.softplus(-self.backbone.score(rows, theirs))
            group = int(self._labels[int(items[0])])  # a pass has pairs of one group only
            sums[group] += each.detach().cpu().double().sum()
            seen[group] += len(each)
            return rows, each

        with evaluating(self):
            gram = gram_by_autograd(
                self.backbone,
                losses,
                self._train.user,
                self._train.item,
                self._labels,
                2,
                at_rows,
                rng=stream(seed, f"pareto_mtl/pairs/{step}"),
            )
        self.losses.copy_(sums / torch.from_numpy(np.maximum(seen, 1)))
        pairs = np.maximum(self._pairs, 1)
        return np.asarray(gram / np.outer(pairs, pairs))
