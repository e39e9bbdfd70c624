"""Losses that depend on the scores of positives and negatives only, with the gradient of each score in closed form.

Such a loss is one function, :data:`OfScores`, which returns its value and its gradients. This module does the rest:
cosines of the rows of a batch, the way back to the rows, the L2 term, and pairs of a backbone without inner products.
"""

from abc import abstractmethod
from collections.abc import Callable
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from icpe.methods._parts.closed_form import has_closed_form, rows_penalty
from icpe.methods._parts.precomputed_gradient import with_gradients
from icpe.methods._parts.sampled_loss import LossSettings, SampledLoss
from icpe.methods._parts.softmax_blocks import Units
from icpe.settings import setting
from icpe.train.batch import Batch

OfScores = Callable[[Tensor, Tensor], tuple[float, Tensor, Tensor]]
"""Function of the scores of the positives [b] and of their negatives [b, m], without autograd. It returns the loss and
its gradients with respect to both, and may change the scores in place."""


def loss_on_cosines(
    users: Tensor, items: Tensor, of_scores: OfScores, reg: float = 0.0, in_batch: bool = False
) -> Tensor:
    """Return the loss of the cosines of rows, and λ/2 · (mean squared norm of users + of positives + of negatives).

    Args:
        users: rows of the users, [b, d].
        items: rows of the positives and then of the negatives that all users share, [b + m, d].
        of_scores: the loss.
        reg: weight λ of the L2 term.
        in_batch: whether the columns of the scores are all items. Column r then belongs to the positive of row r.
    """
    size = len(users)
    start = 0 if in_batch else size  # position of the item of the first column
    if not has_closed_form(users, items):
        user, item = F.normalize(users, dim=-1), F.normalize(items, dim=-1)
        positive, negative = (user * item[:size]).sum(-1), user @ item[start:].T
        return loss_on_scores(positive, negative, of_scores) + rows_penalty(users, items, reg)
    of_users, of_items = (Units(rows.detach().contiguous().numpy()).make(slice(None)) for rows in (users, items))
    user, item = of_users.units, of_items.units
    value, to_positive, to_negative = of_scores((user * item[:size]).sum(1), user @ item[start:].T)
    user_grads = torch.mm(to_negative, item[start:]).addcmul_(to_positive[:, None], item[:size])
    item_grads = torch.zeros_like(item)
    torch.mm(to_negative.T, user, out=item_grads[start:])
    item_grads[:size].addcmul_(to_positive[:, None], user)
    of_users.back(user_grads.numpy(), slice(None), reg)
    value += of_users.penalty(slice(None), reg)
    for part in (slice(size), slice(size, None)):
        of_items.back(item_grads.numpy(), part, reg)
    value += sum(of_items.penalty(part, reg) for part in (slice(size), slice(size, None)))
    return with_gradients(value, [user_grads, item_grads], [users, items])


def loss_on_scores(positive: Tensor, negative: Tensor, of_scores: OfScores) -> Tensor:
    """Return the loss of scores [b] and [b, m] that autograd has computed."""
    with torch.no_grad():
        value, *gradients = of_scores(positive.detach().clone(), negative.detach().clone())
    return with_gradients(value, gradients, [positive, negative])


def log_of_sum(logits: Tensor) -> tuple[Tensor, Tensor]:
    """Return log Σ_j exp of each row of logits, [b, m] → [b], and its gradient, the softmax, [b, m].

    Example:
        >>> total, chance = log_of_sum(torch.zeros(1, 4))
        >>> round(float(total), 3), chance.tolist()
        (1.386, [[0.25, 0.25, 0.25, 0.25]])
    """
    # torch computes the softmax in one fast pass; its largest entry gives the sum it was divided by.
    chance = torch.softmax(logits, 1)
    return logits.amax(1) - chance.amax(1).log(), chance


class ScoreLossSettings(LossSettings):
    """Settings of :class:`ScoreLoss`."""

    loss: ClassVar[Literal["softmax"]] = "softmax"  # type: ignore[misc]  # the only loss, hence not a setting
    negatives: int | None = setting(
        None,
        "Negatives that a batch shares. Default: 256, or 16 where the score is not an inner product.",
        least=1,
    )


class ScoreLoss(SampledLoss):
    """A loss of the cosines of each positive and of negatives that the batch shares; for NeuMF, of its logits."""

    Settings: ClassVar[type[ScoreLossSettings]] = ScoreLossSettings
    settings: ScoreLossSettings

    @abstractmethod
    def of_scores(self, batch: Batch) -> OfScores:
        """Return the loss of the scores of this batch."""

    def loss(self, batch: Batch, rng: torch.Generator | None = None) -> Tensor:
        """Return the loss plus the L2 term."""
        wanted = torch.cat([batch.items, batch.negatives])
        users, items = self.backbone.rows(batch.users, wanted, rng)
        if self.backbone.inner_product:
            with_penalty = self.backbone.trains_rows  # the rows at hand are then the trainable ones
            loss = loss_on_cosines(users, items, self.of_scores(batch), self.reg if with_penalty else 0.0)
            return loss if with_penalty else loss + self.penalty(batch)
        positives, negatives = items[: len(users)], items[len(users) :]
        positive, negative = self.backbone.score(users, positives), self.backbone.score(users[:, None], negatives)
        loss = loss_on_scores(positive, negative, self.of_scores(batch))
        return loss + self.penalty(batch, (users, positives, negatives))
