"""In-batch softmax: the other positives of a batch are the negatives, corrected for their popularity."""

from typing import ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from icpe.data.interactions import Interactions
from icpe.methods._parts.distinct import distinct, sum_without_own
from icpe.methods._parts.inner_product import require_inner_product
from icpe.methods._parts.log_popularity import log_popularity
from icpe.methods._parts.precomputed_gradient import with_gradients
from icpe.methods._parts.sampled_loss import LossSettings, SampledLoss
from icpe.methods._parts.softmax_blocks import add_in_order
from icpe.settings import setting
from icpe.threads import blocks, run_parts
from icpe.train.batch import Batch, Negatives

_EPS = 1e-12  # smallest norm of a vector, as in torch's normalize


class InBatchSettings(LossSettings):
    """Settings of :class:`InBatch`."""

    loss: ClassVar[Literal["softmax"]] = "softmax"  # type: ignore[misc]  # the only loss, hence not a setting
    negatives: ClassVar[int] = 0  # type: ignore[misc]  # the batch itself provides them
    temperature: float = setting(0.2, "Temperature τ of the softmax.", above=0.0, search=(0.15, 0.2, 0.25, 0.3))
    strength: float = setting(
        0.3,
        "Strength of the logQ correction: 1 puts popularity back in full, as in the paper; 0 puts nothing back.",
        least=0.0,
        search=(0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.7),
    )


class InBatch(SampledLoss):
    """In-batch softmax with logQ correction (Yi et al. 2019), on cosine / temperature.

    The positives of a batch serve as each other's negatives, so an item is a negative as often as it is used, and the
    learned score lacks log popularity. Subtracting ``strength``·log q_i from the logits in training puts popularity
    back, in full for strength 1. The backbone's score must be an inner product (MF, LightGCN).

    Example:
        >>> from icpe.backbones import MF
        >>> InBatch(MF()).settings.strength
        0.3
    """

    name: ClassVar[str] = "in_batch"
    label: ClassVar[str] = "In-batch softmax"
    Settings = InBatchSettings
    settings: InBatchSettings
    log_popularity: Tensor

    @property
    def negatives(self) -> Negatives:
        """None are sampled."""
        return Negatives(0, shared=True)

    def build(self, train: Interactions, rng: np.random.Generator) -> None:
        """Create the backbone's parameters and the popularity of the items."""
        require_inner_product(self, "the scores of all pairs of a batch")
        super().build(train, rng)
        self.register_buffer("log_popularity", log_popularity(train))

    def loss(self, batch: Batch, rng: torch.Generator | None = None) -> Tensor:
        """Return the cross-entropy of each positive among the positives of the batch, plus the L2 term.

        Other occurrences of the same item are not negatives.
        """
        users, user_places = distinct(batch.users, self.backbone.users)
        items, item_places = distinct(batch.items, self.backbone.items)
        vectors = self.backbone.rows(users, items, rng)
        offset = -self.settings.strength * self.log_popularity[items]
        places = user_places, item_places
        return in_batch_softmax(*vectors, places, offset, self.settings.temperature) + self.penalty(batch)


def in_batch_softmax(
    users: Tensor, items: Tensor, places: tuple[Tensor, Tensor], offset: Tensor, temperature: float
) -> Tensor:
    """Return the mean cross-entropy of the positives of a batch among each other, on cosine / temperature + offset.

    Args:
        users: vectors of the distinct users, [n, D].
        items: vectors of the distinct items, [m, D].
        places: position of the batch's users and of their positives among the distinct ones, int64 [batch] each.
        offset: offsets of the items, [m].
        temperature: temperature of the softmax.
    """
    with torch.no_grad():
        norms = [one.norm(dim=-1, keepdim=True).clamp_min(_EPS) for one in (users, items)]
        user, item = users / norms[0], items / norms[1]
        counts = torch.bincount(places[1], minlength=len(items)).to(users)
        losses, user_grads = user.new_empty(len(places[0]), dtype=torch.float64), torch.empty_like(user)

        def block(first: int, last: int) -> Tensor:
            mine = torch.nonzero((places[0] >= first) & (places[0] < last))[:, 0]
            at = places[0][mine] - first, places[1][mine]
            # One matrix changes in place: logits, then the terms of each user's sum, then the gradient of the logits.
            matrix = (user[first:last] @ item.T).div_(temperature).add_(offset)
            highest = matrix.amax(1)
            positive = (matrix[at] - highest[at[0]]).double()
            matrix.sub_(highest[:, None]).exp_().mul_(counts)
            own = matrix[at].double()  # all occurrences of the positive item in the batch
            total = sum_without_own(matrix, at[0], own) + positive.exp()
            losses[mine] = torch.log(total) - positive
            share = 1 / (total * len(losses))
            matrix.mul_(share.new_zeros(last - first).index_add_(0, at[0], share).to(matrix)[:, None])
            matrix.index_put_(at, ((positive.exp() - own) * share - 1 / len(losses)).to(matrix), accumulate=True)
            torch.mm(matrix, item, out=user_grads[first:last])
            return torch.mm(matrix.T, user[first:last])

        item_grads = add_in_order(run_parts(block, blocks(len(users))))
        grads = [user_grads / temperature, item_grads / temperature]
        for grad, unit, norm in zip(grads, (user, item), norms, strict=True):
            grad.sub_(unit * (grad * unit).sum(-1, keepdim=True)).div_(norm)
    return with_gradients(losses.mean(), grads, [users, items])
