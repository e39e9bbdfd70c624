"""Softmax of cosines in which the angle of the positive is enlarged by a margin.

With θ the angle between a user and an item, a positive counts as cos(θ + M) and a negative as cos θ. The loss of a
batch is the mean cross-entropy of the positives against their negatives on these numbers / temperature.
"""

import math
from typing import Any

import numba
import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from icpe.kernels.losses import normalise, through_norm
from icpe.types import FloatArray

EPS = 1e-8  # the least norm of a vector
_LEAST = 1e-7  # of sin²θ, whose root has no slope at 0


def add_margin(cosine: Tensor, margin: Tensor) -> Tensor:
    """cos(θ + M) from cos θ and M, elementwise; M stops at π − θ, beyond which similarity would rise again.

    The cap is a constant for the gradient, and arccos, whose slope is unbounded, is not part of it.

    Example:
        >>> values = add_margin(torch.tensor([1.0, 0.0, -0.9]), torch.tensor([0.5, 0.5, 1.0]))
        >>> [round(value, 3) for value in values.tolist()]
        [0.877, -0.479, -1.0]
    """
    angle = torch.arccos(cosine.detach().clamp(-1, 1))
    margin = torch.minimum(margin.to(cosine.dtype), math.pi - angle)
    sine = (1 - cosine.square()).clamp_min(_LEAST).sqrt()
    return cosine * torch.cos(margin) - sine * torch.sin(margin)


def softmax_with_margin(cosines: Tensor, margin: Tensor, temperature: float) -> Tensor:
    """The loss from the cosines of each positive and of its negatives, [batch, 1 + N], and margins, [batch]."""
    positive = add_margin(cosines[:, 0], margin)
    logits = torch.cat([positive[:, None], cosines[:, 1:]], 1) / temperature
    return (torch.logsumexp(logits, 1) - logits[:, 0]).mean()


def in_batch_with_margin(users: Tensor, items: Tensor, margin: Tensor, temperature: float) -> Tensor:
    """The loss of vectors [batch, D] where the positives of all other rows are the negatives."""
    cosines = F.normalize(users, dim=-1, eps=EPS) @ F.normalize(items, dim=-1, eps=EPS).T
    positive = add_margin(cosines.diagonal(), margin)
    logits = cosines.diagonal_scatter(positive) / temperature
    return (torch.logsumexp(logits, 1) - logits.diagonal()).mean()


def vectors_with_margin(
    users: Tensor, items: Tensor, positives: Tensor, negatives: Tensor, margin: Tensor, temperature: float
) -> Tensor:
    """The loss of vectors with negatives for each positive; on the CPU its gradient has a closed form.

    Args:
        users: of the users, [batch, D].
        items: of the distinct items of a batch, [m, D].
        positives: places of the positives among them, int64 [batch].
        negatives: places of the negatives, int64 [batch, N].
        margin: M, [batch].
        temperature: of the softmax.
    """
    if users.device.type != "cpu" or users.dtype != items.dtype or users.dtype not in (torch.float32, torch.float64):
        return plain_vectors_with_margin(users, items, positives, negatives, margin, temperature)
    rows: list[FloatArray] = [one.detach().contiguous().numpy() for one in (users, items)]
    units, norms = [np.empty_like(one) for one in rows], [np.empty(len(one), one.dtype) for one in rows]
    for one, unit, norm in zip(rows, units, norms, strict=True):
        normalise(one, unit, norm, EPS)
    grads = [np.zeros_like(one) for one in rows]
    angles = margin.detach().to(users.dtype).numpy()
    value = _margin_softmax(*units, positives.numpy(), negatives.numpy(), angles, temperature, *grads)  # type: ignore[call-arg]
    for one, unit, norm, grad in zip(rows, units, norms, grads, strict=True):
        through_norm(grad, unit, norm, one, 0.0)
    loss: Tensor = _Known.apply(value, grads, users, items)  # type: ignore[no-untyped-call]
    return loss


def plain_vectors_with_margin(
    users: Tensor, items: Tensor, positives: Tensor, negatives: Tensor, margin: Tensor, temperature: float
) -> Tensor:
    """:func:`vectors_with_margin` by torch alone, against which the closed form is tested."""
    user, item = F.normalize(users, dim=-1, eps=EPS), F.normalize(items, dim=-1, eps=EPS)
    places = torch.cat([positives[:, None], negatives], 1)
    cosines = torch.bmm(F.embedding(places, item), user[:, :, None])[:, :, 0]
    return softmax_with_margin(cosines, margin, temperature)


class _Known(torch.autograd.Function):
    """A number whose gradients are known already."""

    @staticmethod
    def forward(ctx: Any, value: float, grads: list[FloatArray], *inputs: Tensor) -> Tensor:
        ctx.grads = [torch.from_numpy(grad) for grad in grads]
        return inputs[0].new_tensor(value)

    @staticmethod
    def backward(ctx: Any, *outer: Tensor) -> tuple[Any, ...]:
        grads, ctx.grads = ctx.grads, None  # kept here too, they would be copied where they go
        if grads is None:
            raise RuntimeError("a closed-form gradient is handed out once; compute the loss again")
        return (None, None, *(grad.mul_(outer[0]) for grad in grads))


@numba.njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"})
def _margin_softmax(users, items, positives, negatives, margin, temperature, user_grads, item_grads):  # type: ignore[no-untyped-def]
    # Unit vectors in; their gradients are added to two arrays of zeros.
    kind = users.dtype.type
    size, count = negatives.shape
    logits = np.empty(count, users.dtype)
    loss = 0.0
    for row in range(size):
        user, grad = users[row], user_grads[row]
        cosine = kind(0)
        item = items[positives[row]]
        for d in range(user.shape[0]):
            cosine += user[d] * item[d]
        angle = min(float(margin[row]), math.pi - math.acos(min(1.0, max(-1.0, float(cosine)))))
        squared = 1.0 - float(cosine) * float(cosine)
        sine = math.sqrt(max(squared, _LEAST))
        positive = (float(cosine) * math.cos(angle) - sine * math.sin(angle)) / temperature
        slope = math.cos(angle)
        if squared > _LEAST:
            slope += float(cosine) / sine * math.sin(angle)
        top = positive
        for draw in range(count):
            other, product = items[negatives[row, draw]], kind(0)
            for d in range(user.shape[0]):
                product += user[d] * other[d]
            logits[draw] = product / temperature
            top = max(top, float(logits[draw]))
        total = math.exp(positive - top)
        share = total
        for draw in range(count):
            logits[draw] = math.exp(logits[draw] - top)
            total += logits[draw]
        loss += top + math.log(total) - positive
        scale = 1.0 / (temperature * size)
        for draw in range(count):
            place = negatives[row, draw]
            other, other_grad = items[place], item_grads[place]
            pull = kind(scale * logits[draw] / total)
            for d in range(user.shape[0]):
                grad[d] += pull * other[d]
                other_grad[d] += pull * user[d]
        own_grad = item_grads[positives[row]]
        pull = kind(scale * (share / total - 1.0) * slope)
        for d in range(user.shape[0]):
            grad[d] += pull * item[d]
            own_grad[d] += pull * user[d]
    return loss / size
