"""Popularity taken off after training: the simplest way to show niche items, and a strong rival."""

from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor

from icpe.backbones.base import Backbone
from icpe.data.interactions import Interactions
from icpe.methods._parts.log_popularity import log_popularity
from icpe.methods.normal import Normal
from icpe.train.method import Loss, check_number

STRENGTHS = tuple(round(0.1 * step, 1) for step in range(13))
_UNCHOSEN = 0.7  # where there is nothing to choose by; it did well on public data


class PopularityPenalty(Normal):
    """Normal training, then ranking by score − c·log(training count).

    For softmax the score is cosine / temperature, the unit of training.

    Args:
        backbone: the model to train.
        loss: as of :class:`Normal`.
        negatives: as of :class:`Normal`.
        temperature: of the softmax.
        c: strength; it may be changed after training. None: the best of 0, 0.1, …, 1.2 at each validation; 0.7 where
            there is none.
        reg: λ of the L2 term; by default the backbone's.

    Example:
        >>> from icpe.backbones import MF
        >>> PopularityPenalty(MF(), loss="softmax", c=0.7).settings()["c"]
        0.7
    """

    name: ClassVar[str] = "penalty"
    label: ClassVar[str] = "Popularity penalty"
    serving: ClassVar[tuple[str, ...]] = ("c",)
    search: ClassVar[dict[str, tuple[Any, ...]]] = {"loss": ("bce", "softmax"), "temperature": (0.15, 0.2, 0.25)}
    log_popularity: Tensor
    chosen: Tensor

    def __init__(
        self,
        backbone: Backbone,
        loss: Loss = "bce",
        negatives: int | None = None,
        temperature: float = 0.2,
        c: float | None = None,
        reg: float | None = None,
    ) -> None:
        super().__init__(backbone, loss, negatives, temperature, reg=reg)
        if c is not None:
            check_number("c", c, least=0.0)
        self.c = c

    def settings(self) -> dict[str, Any]:
        """Constructor arguments but the backbone; a strength that is to be chosen is left out."""
        settings = super().settings()
        del settings["neg_weight"], settings["length"]
        return settings if self.c is None else {**settings, "c": self.c}

    def build(self, train: Interactions, rng: Any) -> None:
        """The backbone, the popularity of items, and the strength chosen."""
        super().build(train, rng)
        self.register_buffer("log_popularity", log_popularity(train))
        self.register_buffer("chosen", torch.tensor(_UNCHOSEN))

    def options(self) -> Sequence[dict[str, Any]]:
        """Strengths to choose from, unless one is set."""
        return [{"c": c} for c in STRENGTHS] if self.c is None else []

    def adopt(self, **serving: Any) -> None:
        """Rank with this ``c``."""
        self.chosen.fill_(serving["c"])

    def diagnostics(self) -> dict[str, Any]:
        """The strength."""
        return {"c": round(float(self._strength), 6)}

    def item_bias(self) -> Tensor:
        """The penalty, in the unit of scores."""
        unit = self.temperature if self.loss_kind == "softmax" else 1.0
        return -self._strength * unit * self.log_popularity

    @property
    def _strength(self) -> float | Tensor:
        return self.chosen if self.c is None else self.c

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        # Models saved when c was always set have nothing that was chosen.
        state_dict.setdefault(f"{prefix}chosen", self.chosen)
        super()._load_from_state_dict(state_dict, prefix, *rest)
