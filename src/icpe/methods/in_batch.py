"""Softmax against the other positives of a batch, with their popularity corrected for."""

from typing import Any, ClassVar

import torch
from torch import Tensor

from icpe.backbones.base import Backbone
from icpe.data.interactions import Interactions
from icpe.errors import ConfigError
from icpe.methods._parts.distinct import distinct, of_the_others
from icpe.methods._parts.log_popularity import log_popularity
from icpe.methods._parts.precomputed_gradient import with_gradients
from icpe.methods.normal import Normal
from icpe.train.method import Batch, Negatives, check_number

_EPS = 1e-12  # the least length of a vector


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
        >>> from icpe.backbones import MF
        >>> InBatch(MF()).settings()["correction"]
        0.3
    """

    name: ClassVar[str] = "in_batch"
    label: ClassVar[str] = "In-batch softmax"
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
        callers, caller = distinct(batch.users, self.backbone.users)
        wanted, place = distinct(batch.items, self.backbone.items)
        vectors = self.backbone.vectors(*self.backbone.rows(callers, wanted, rng))
        assert vectors is not None
        offset = -self.correction * self.log_popularity[wanted]
        return in_batch_softmax(*vectors, (caller, place), offset, self.temperature) + self.penalty(batch)


def in_batch_softmax(
    users: Tensor, items: Tensor, rows: tuple[Tensor, Tensor], offset: Tensor, temperature: float
) -> Tensor:
    """Mean cross-entropy of the positives of a batch among each other, on cosine / temperature + offset.

    Args:
        users: vectors of the distinct users, [n, D].
        items: vectors of the distinct items, [m, D].
        rows: places of the batch's users and of their positives among them, int64 [batch] each.
        offset: of the items, [m].
        temperature: of the softmax.
    """
    with torch.no_grad():
        lengths = [one.norm(dim=-1, keepdim=True).clamp_min(_EPS) for one in (users, items)]
        user, item = users / lengths[0], items / lengths[1]
        # One matrix, in place: logits, then terms of the users' sums, then the gradient at the logits.
        each = (user @ item.T).div_(temperature).add_(offset)
        highest = each.amax(1)
        positive = (each[rows] - highest[rows[0]]).double()
        each.sub_(highest[:, None]).exp_().mul_(torch.bincount(rows[1], minlength=len(items)).to(each))
        own = each[rows].double()  # of the item wherever it is in the batch
        total = of_the_others(each, rows[0], own) + positive.exp()
        loss = (torch.log(total) - positive).mean()
        share = 1 / (total * len(total))
        each.mul_(share.new_zeros(len(users)).index_add_(0, rows[0], share).to(each)[:, None])
        each.index_put_(rows, ((positive.exp() - own) * share - 1 / len(total)).to(each), accumulate=True)
        grads = [each @ item / temperature, each.T @ user / temperature]
        for grad, unit, length in zip(grads, (user, item), lengths, strict=True):
            grad.sub_(unit * (grad * unit).sum(-1, keepdim=True)).div_(length)
    return with_gradients(loss, grads, [users, items])
