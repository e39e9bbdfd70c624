"""Positives weighed by the inverse of how likely their item is to be seen."""

from typing import Any, ClassVar, Literal, get_args

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from icpe.backbones.base import Backbone
from icpe.data.interactions import Interactions
from icpe.methods.normal import Normal
from icpe.train.method import Batch, check_choice, check_number
from icpe.types import FloatArray, IntArray

Norm = Literal["mean", "max", "batch"]


class IPS(Normal):
    """Inverse propensity scoring, clipped and normalised.

    An item is seen in proportion to a power of its popularity, p_i = (n_i / max n)^γ, and a positive weighs
    w_i = 1/p_i, at most a percentile of the weights of all items.

    * ``loss="bce"``: mean of w_i·softplus(−s_ui) + (1/K)·Σ_k softplus(s_uj).
    * ``loss="bpr"``: mean of w_i·(1/K)·Σ_k softplus(−(s_ui − s_uj)).

    Args:
        backbone: the model to train.
        loss: see above.
        negatives: K, for each positive.
        gamma: γ; 0 is :class:`Normal`.
        clip_pct: percentile of the items' weights that none exceeds; 50 is their median, 100 clips nothing.
        norm: what weights are divided by: their ``"mean"`` over training pairs, which leaves learning rate and λ their
            meaning; their ``"max"``; or their mean in each ``"batch"`` (self-normalised).
        reg: λ of the L2 term; by default the backbone's.

    Raises:
        ConfigError: a setting is out of its range.

    Example:
        >>> from icpe.backbones import MF
        >>> IPS(MF(), gamma=0.5).settings()["norm"]
        'mean'
    """

    name: ClassVar[str] = "ips"
    serving: ClassVar[tuple[str, ...]] = ()
    search: ClassVar[dict[str, tuple[Any, ...]]] = {
        "gamma": (0.25, 0.5, 0.75, 1.0),
        "clip_pct": (50.0, 75.0, 90.0, 99.0, 100.0),
    }
    weight: Tensor

    def __init__(
        self,
        backbone: Backbone,
        loss: Literal["bce", "bpr"] = "bce",
        negatives: int | None = None,
        gamma: float = 1.0,
        clip_pct: float = 50.0,
        norm: Norm = "mean",
        reg: float | None = None,
    ) -> None:
        check_choice("loss", loss, ("bce", "bpr"))
        super().__init__(backbone, loss, negatives, reg=reg)
        check_number("gamma", gamma, least=0.0)
        check_number("clip_pct", clip_pct, least=0.0, most=100.0)
        check_choice("norm", norm, get_args(Norm))
        self.gamma, self.clip_pct, self.norm = gamma, clip_pct, norm

    def settings(self) -> dict[str, Any]:
        """Constructor arguments but the backbone."""
        return {
            "loss": self.loss_kind,
            "negatives": self.negative_count,
            "gamma": self.gamma,
            "clip_pct": self.clip_pct,
            "norm": self.norm,
            "reg": self.reg,
        }

    def build(self, train: Interactions, rng: Any) -> None:
        """The backbone, and the weights of items."""
        super().build(train, rng)
        weight = clipped(1 / exposure(train.item_counts, self.gamma), self.clip_pct)
        if self.norm == "mean":
            weight /= (train.item_counts * weight).sum() / len(train)
        elif self.norm == "max":
            weight /= weight.max()
        self.register_buffer("weight", torch.from_numpy(weight.astype(np.float32)))

    def loss(self, batch: Batch, rng: torch.Generator | None = None) -> Tensor:
        """The weighted loss plus the L2 term."""
        wanted = torch.cat([batch.items, batch.negatives.reshape(-1)])
        users, both = self.backbone.rows(batch.users, wanted, rng)
        weight = self.weight[batch.items]
        if self.norm == "batch":
            weight = weight / weight.mean()
        vectors = self.backbone.vectors(users, both)
        if vectors is not None:
            return self._loss_of_vectors(batch, *vectors, vectors[0] is users and vectors[1] is both, weight=weight)
        items, drawn = both[: len(users)], both[len(users) :]
        positive = self.backbone.score(users, items)
        negative = self.backbone.score(users[:, None], drawn.view(*batch.negatives.shape, -1))
        if self.loss_kind == "bpr":
            loss = (weight * F.softplus(negative - positive[:, None]).mean(1)).mean()
        else:
            loss = (weight * F.softplus(-positive)).mean() + F.softplus(negative).mean()
        return loss + self.penalty(batch, (users, items, drawn))


def exposure(counts: IntArray, gamma: float) -> FloatArray:
    """How likely items are to be seen: (n_i / max n)^γ, float64 [items]; no pair counts as one.

    Example:
        >>> exposure(np.array([0, 1, 4]), 0.5)
        array([0.5, 0.5, 1. ])
    """
    known = np.maximum(counts, 1).astype(np.float64)
    return np.asarray((known / known.max()) ** gamma)


def clipped(weights: FloatArray, percentile: float) -> FloatArray:
    """Weights, none above a percentile of them.

    The percentile is one of the weights and no mean of two, so that clipping and powers may change places.
    """
    return np.minimum(weights, np.percentile(weights, percentile, method="lower"))
