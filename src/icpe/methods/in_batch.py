"""Softmax against the other positives of a batch, with their popularity corrected for."""

from typing import Any, ClassVar

import torch
from torch import Tensor

from icpe.data.interactions import Interactions
from icpe.errors import ConfigError
from icpe.methods.base import Batch, Negatives, check_number
from icpe.methods.normal import Normal
from icpe.methods.popularity import log_popularity
from icpe.models.base import Backbone


class InBatch(Normal):
    """In-batch softmax with logQ correction (Yi et al. 2019), on cosine / temperature.

    The positives of a batch are each other's negatives, so items are drawn as often as they are used: the score that
    is learned lacks log popularity. Subtracting ``correction``·log q_i from logits in training puts it back in full for
    1 and not at all for 0; between them lies the choice of how popular lists shall be.

    Args:
        backbone: the model to train; its score must be an inner product (MF, LightGCN).
        temperature: of the softmax.
        correction: see above.
        reg: λ of the L2 term; by default the backbone's.

    Example:
        >>> from icpe.models import MF
        >>> InBatch(MF()).settings()["correction"]
        0.3
    """

    name: ClassVar[str] = "in_batch"
    serving: ClassVar[tuple[str, ...]] = ()
    search: ClassVar[dict[str, tuple[Any, ...]]] = {
        "correction": (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.7),
        "temperature": (0.15, 0.2, 0.25, 0.3),
    }
    log_popularity: Tensor

    def __init__(
        self, backbone: Backbone, temperature: float = 0.2, correction: float = 0.3, reg: float | None = None
    ) -> None:
        super().__init__(backbone, "softmax", None, temperature, reg=reg)
        check_number("correction", correction, least=0.0)
        self.correction = correction

    def settings(self) -> dict[str, Any]:
        """Constructor arguments but the backbone."""
        return {"temperature": self.temperature, "correction": self.correction, "reg": self.reg}

    @property
    def negatives(self) -> Negatives:
        """None are drawn."""
        return Negatives(0, shared=True)

    def build(self, train: Interactions, rng: Any) -> None:
        """The backbone, and the popularity of items."""
        super().build(train, rng)
        with torch.no_grad():
            users, items = self.backbone.reps()
        if self.backbone.vectors(users[:1], items[:1]) is None:
            raise ConfigError(
                f"{type(self.backbone).__name__} scores pairs one by one, and in_batch needs all pairs of a batch; "
                "take a backbone with inner products (mf, lightgcn)"
            )
        self.register_buffer("log_popularity", log_popularity(train))

    def loss(self, batch: Batch, rng: torch.Generator | None = None) -> Tensor:
        """Cross-entropy of each positive among the batch's, the same item elsewhere left out, plus the L2 term."""
        users, items = self.backbone.rows(batch.users, batch.items, rng)
        vectors = self.backbone.vectors(users, items)
        assert vectors is not None
        correction = -self.correction * self.log_popularity[batch.items]
        ego = vectors[0] is users and vectors[1] is items
        return self._loss_of_vectors(batch, *vectors, ego, offset=correction, codes=batch.items)
