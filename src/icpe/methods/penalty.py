"""A popularity penalty after training: the simplest way to show niche items, and a strong baseline."""

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from icpe.data.interactions import Interactions
from icpe.methods._parts.log_popularity import log_popularity
from icpe.methods._parts.sampled_loss import Loss, LossSettings, SampledLoss
from icpe.settings import setting
from icpe.train.abilities import Diagnostics, ItemBias, RankingChoice

STRENGTHS = tuple(round(0.1 * step, 1) for step in range(13))
_WITHOUT_VALIDATION = 0.7  # the strength when nothing can be validated; it did well on public data


class PopularityPenaltySettings(LossSettings):
    """Settings of :class:`PopularityPenalty`."""

    loss: Loss = setting(
        "bce",
        "Loss: binary cross-entropy (bce), Bayesian personalised ranking (bpr), or softmax over cosine / temperature.",
        search=("bce", "softmax"),
    )
    temperature: float = setting(0.2, "Temperature τ of the softmax.", above=0.0, search=(0.15, 0.2, 0.25))
    strength: float | None = setting(
        None,
        "Strength c of the penalty. Default: the best of 0, 0.1, …, 1.2 at each validation, or 0.7 without validation "
        "data.",
        least=0.0,
        ranking=True,
    )


class PopularityPenalty(RankingChoice, Diagnostics, ItemBias, SampledLoss):
    """Training without debiasing, then ranking by score − c·log(training count).

    For softmax the score is cosine / temperature, the unit of training.

    Example:
        >>> from icpe.backbones import MF
        >>> PopularityPenalty(MF(), loss="softmax", strength=0.7).settings.strength
        0.7
    """

    name: ClassVar[str] = "penalty"
    label: ClassVar[str] = "Popularity penalty"
    Settings = PopularityPenaltySettings
    settings: PopularityPenaltySettings
    log_popularity: Tensor
    chosen: Tensor

    def build(self, train: Interactions, rng: np.random.Generator) -> None:
        """Create the backbone's parameters, the popularity of the items, and the strength to be chosen."""
        super().build(train, rng)
        self.register_buffer("log_popularity", log_popularity(train))
        self.register_buffer("chosen", torch.tensor(_WITHOUT_VALIDATION))

    def ranking_options(self) -> Sequence[dict[str, Any]]:
        """Return the strengths to choose from, or none if the settings fix it."""
        return [{"strength": strength} for strength in STRENGTHS] if self.settings.strength is None else []

    def choose_ranking(self, **settings: Any) -> None:
        """Rank with this ``strength`` from now on."""
        self.chosen.fill_(settings["strength"])

    def ranking_choice(self) -> dict[str, Any]:
        """Return the choice in effect."""
        return {"strength": float(self.chosen)}

    def diagnostics(self) -> dict[str, Any]:
        """Return the strength in effect."""
        return {"strength": round(float(self._strength), 6)}

    def item_bias(self) -> Tensor:
        """Return the negative penalty of each item, in the unit of the ranking score."""
        return -self._strength * self.score_unit * self.log_popularity

    @property
    def _strength(self) -> float | Tensor:
        return self.chosen if self.settings.strength is None else self.settings.strength

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        # Models of early versions always had a fixed strength and saved no chosen one.
        state_dict.setdefault(f"{prefix}chosen", self.chosen)
        super()._load_from_state_dict(state_dict, prefix, *rest)
