"""Pareto MTL (Lin et al., NeurIPS 2019) for two losses, those of head and of niche items."""

from typing import ClassVar, Literal, Self

import numpy as np
import torch
import torch.nn.functional as F
from pydantic import model_validator
from torch import Tensor

from icpe.data.interactions import Interactions
from icpe.data.popularity import head_mask
from icpe.methods._parts.sampled_loss import LossSettings, SampledLoss
from icpe.methods.icpe.gram import gram_by_autograd
from icpe.pareto import min_norm_weights
from icpe.rng import stream
from icpe.settings import setting
from icpe.train.abilities import Refresh
from icpe.train.batch import Batch
from icpe.train.method import evaluation_mode
from icpe.types import FloatArray

_NEAR = 0.01  # share of ‖L‖ below which the distance to a constraint makes it active
_REFRESHES = 4  # updates of the weights per epoch


def preference_vectors(count: int) -> FloatArray:
    """Unit vectors spread over the interior of the first quadrant, float64 [count, 2], from the first axis on.

    Example:
        >>> np.degrees(np.arctan2(*preference_vectors(3).T[::-1])).round(6).tolist()
        [15.0, 45.0, 75.0]
    """
    angles = (np.arange(count) + 0.5) / count * np.pi / 2
    return np.stack([np.cos(angles), np.sin(angles)], axis=1)


def violations(losses: FloatArray, preferences: FloatArray, chosen: int) -> FloatArray:
    """c_j = (u_j − u_k)·L for all j ≠ k, as shares of ‖L‖, float64 [preferences − 1].

    All are at most 0 where the losses are closer to the chosen direction k than to any other.
    """
    others = np.delete(preferences, chosen, axis=0) - preferences[chosen]
    return np.asarray(others @ losses / max(float(np.linalg.norm(losses)), 1e-12))


def step_weights(
    losses: FloatArray, gram: FloatArray, preferences: FloatArray, chosen: int, feasibility: bool = False
) -> FloatArray:
    """Factors of the two losses in a step of Pareto MTL, float64 [2]. Their absolute values sum to 1.

    The step follows the shortest vector in the convex hull of the gradients of both losses and of the active
    constraints, λ_i + Σ_j β_j (u_ji − u_ki) in terms of the losses. A factor can be negative; that loss then increases.

    Args:
        losses: L, [2].
        gram: inner products of the gradients of the losses, [2, 2]. Constraints combine the same two gradients.
        preferences: unit vectors, [preferences, 2].
        chosen: index k of the preference.
        feasibility: descend only the violated constraints, if any.

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
    # A combination of length 0 is Pareto-stationary, so both losses get the same factor.
    return np.asarray(factors / size) if size > 1e-9 else np.full(2, 0.5)


class ParetoMTLSettings(LossSettings):
    """Settings of :class:`ParetoMTL`."""

    loss: Literal["bce"] = setting("bce", "Loss: binary cross-entropy.")
    preferences: tuple[tuple[float, float], ...] = setting(
        ((1.0, 0.0),), "Unit vectors over (head loss, niche loss).", expected="at least one pair of numbers"
    )
    chosen: int = setting(0, "Index of the preference.", least=0)
    warm_up: int = setting(0, "Steps in which only constraints are descended until they are satisfied.", least=0)

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if not self.chosen < len(self.preferences):
            raise ValueError(f"chosen is {self.chosen}; expected an integer from 0 to {len(self.preferences) - 1}")
        return self


class ParetoMTL(Refresh, SampledLoss):
    """Normal training with bce in which Pareto MTL weighs the mean losses of head and of niche positives.

    It minimises a_h·L_h + a_n·L_n + L⁻ with a_h + a_n = 1; in Normal, a_h is the share of head items in the positives.
    The Gram matrix contains gradients on the shared parameters, over all training pairs (at most 65,536 sampled ones if
    gradients are taken at rows). It is refreshed four times per epoch: each refresh is a pass over these pairs, but
    rare refreshes notice late that a constraint has become active. The factors apply to all parameters, so that one
    loss is minimised. A negative factor is replaced by 0 and the other by 1. Otherwise the items' own rows, which are
    not part of the matrix, would be trained to increase that loss, and positives would count less in relation to
    negatives.
    """

    name: ClassVar[str] = "pareto_mtl"
    Settings = ParetoMTLSettings
    settings: ParetoMTLSettings
    item_weight: Tensor
    losses: Tensor

    def build(self, train: Interactions, rng: np.random.Generator) -> None:
        """Build the backbone and mark head and niche items."""
        super().build(train, rng)
        self._train = train
        self._labels = np.where(head_mask(train.item_counts), 0, 1)
        self._pairs = np.bincount(self._labels[train.item], minlength=2)
        self.register_buffer("item_weight", torch.ones(len(train.items)))
        self.register_buffer("losses", torch.zeros(2, dtype=torch.float64))

    def loss(self, batch: Batch, rng: torch.Generator | None = None) -> Tensor:
        """Loss of Normal with weighted positives."""
        wanted = torch.cat([batch.items, batch.negatives.reshape(-1)])
        users, items = self.backbone.rows(batch.users, wanted, rng)
        weight = self.item_weight[batch.items]
        if self.backbone.inner_product:
            return self.product_loss(batch, users, items, weight=weight)
        positives, negatives = items[: len(users)], items[len(users) :]
        positive = self.backbone.score(users, positives)
        negative = self.backbone.score(users[:, None], negatives.view(*batch.negatives.shape, -1))
        total = (weight * F.softplus(-positive)).mean() + F.softplus(negative).mean()
        return total + self.penalty(batch, (users, positives, negatives))

    def refresh_due(self, step: int, epoch_steps: int) -> bool:
        """Whether to refresh at this step: four times per epoch."""
        return step % max(1, epoch_steps // _REFRESHES) == 0

    def refresh(self, step: int, seed: int) -> None:
        """Compute the losses and the Gram matrix of the current parameters, and the weights that follow from them."""
        gram = self.gram(seed, step)
        settings, found = self.settings, self.losses.cpu().numpy()
        vectors, feasibility = np.array(settings.preferences), step < settings.warm_up
        factors = step_weights(found, gram, vectors, settings.chosen, feasibility=feasibility)
        share = self._pairs / self._pairs.sum()
        kept = np.maximum(factors, 0)
        weights = (kept / max(kept.sum(), 1e-9) / np.maximum(share, 1e-9))[self._labels]
        self.item_weight.copy_(torch.from_numpy(weights))

    def gram(self, seed: int, step: int) -> FloatArray:
        """Inner products of the gradients of the two mean losses. It also updates :attr:`losses`."""
        at_rows = self.backbone.trains_rows
        sums, seen = torch.zeros(2, dtype=torch.float64), np.zeros(2)

        def losses(users: Tensor, items: Tensor) -> tuple[Tensor, Tensor]:
            rows, theirs = self.backbone.rows(users, items)
            each = F.softplus(-self.backbone.score(rows, theirs))
            group = int(self._labels[int(items[0])])  # each pass has pairs of one group only
            sums[group] += each.detach().cpu().double().sum()
            seen[group] += len(each)
            return rows, each

        with evaluation_mode(self):
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
