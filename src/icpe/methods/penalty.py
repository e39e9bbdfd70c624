"""Popularity taken off after training: the simplest way to show niche items, and a strong rival."""

from typing import Any, ClassVar

from torch import Tensor

from icpe.data.interactions import Interactions
from icpe.methods.base import Loss, check_number
from icpe.methods.normal import Normal
from icpe.methods.popularity import log_popularity
from icpe.models.base import Backbone


class PopularityPenalty(Normal):
    """Normal training, then ranking by score − c·log(training count).

    For softmax the score is cosine / temperature, the unit of training.

    Args:
        backbone: the model to train.
        loss: as of :class:`Normal`.
        negatives: as of :class:`Normal`.
        temperature: of the softmax.
        c: strength; it may be changed after training. Choose it on validation data.
        reg: λ of the L2 term; by default the backbone's.

    Example:
        >>> from icpe.models import MF
        >>> PopularityPenalty(MF(), loss="softmax", c=0.7).settings()["c"]
        0.7
    """

    name: ClassVar[str] = "penalty"
    serving: ClassVar[tuple[str, ...]] = ("c",)
    log_popularity: Tensor

    def __init__(
        self,
        backbone: Backbone,
        loss: Loss = "bce",
        negatives: int | None = None,
        temperature: float = 0.2,
        c: float = 0.7,
        reg: float | None = None,
    ) -> None:
        super().__init__(backbone, loss, negatives, temperature, reg=reg)
        check_number("c", c, least=0.0)
        self.c = c

    def settings(self) -> dict[str, Any]:
        """Constructor arguments but the backbone."""
        settings = super().settings()
        del settings["neg_weight"], settings["length"]
        return {**settings, "c": self.c}

    def build(self, train: Interactions, rng: Any) -> None:
        """The backbone, and the popularity of items."""
        super().build(train, rng)
        self.register_buffer("log_popularity", log_popularity(train))

    def item_bias(self) -> Tensor:
        """The penalty, in the unit of scores."""
        unit = self.temperature if self.loss_kind == "softmax" else 1.0
        return -self.c * unit * self.log_popularity
