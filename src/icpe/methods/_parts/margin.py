"""Softmax of cosines in which a margin enlarges the angle of the positive.

With θ the angle between a user and an item, a positive counts as cos(θ + M) and a negative as cos θ. The loss of a
batch is the mean cross-entropy of the positives against their negatives on these values / temperature.
"""

import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from icpe.kernels.losses import normalise, through_norm
from icpe.kernels.margin import margin_softmax
from icpe.methods._parts.distinct import sum_without_own
from icpe.methods._parts.precomputed_gradient import with_gradients
from icpe.types import FloatArray

MIN_NORM = 1e-8  # smallest norm by which a vector is divided
_MIN_SINE_SQUARED = 1e-7  # the slope of the root of sin²θ is infinite at 0


def add_margin(cosine: Tensor, margin: Tensor) -> Tensor:
    """Return cos(θ + M) from cos θ and M, elementwise.

    M is capped at π − θ, because the cosine would rise again beyond that. The cap is a constant for the gradient, so
    arccos, whose slope is unbounded, is not differentiated.

    Example:
        >>> values = add_margin(torch.tensor([1.0, 0.0, -0.9]), torch.tensor([0.5, 0.5, 1.0]))
        >>> [round(value, 3) for value in values.tolist()]
        [0.877, -0.479, -1.0]
    """
    angle = torch.arccos(cosine.detach().clamp(-1, 1))
    margin = torch.minimum(margin.to(cosine.dtype), math.pi - angle)
    sine = (1 - cosine.square()).clamp_min(_MIN_SINE_SQUARED).sqrt()
    return cosine * torch.cos(margin) - sine * torch.sin(margin)


def softmax_with_margin(cosines: Tensor, margin: Tensor, temperature: float) -> Tensor:
    """Return the loss from the cosines of each positive and of its negatives, [batch, 1 + N], and margins, [batch]."""
    positive = add_margin(cosines[:, 0], margin)
    logits = torch.cat([positive[:, None], cosines[:, 1:]], 1) / temperature
    return (torch.logsumexp(logits, 1) - logits[:, 0]).mean()


def in_batch_with_margin(
    users: Tensor, items: Tensor, rows: tuple[Tensor, Tensor], margin: Tensor, temperature: float
) -> Tensor:
    """Return the loss of a batch in which the positives of all other rows are the negatives.

    Users and items occur many times in a batch, so the number of distinct cosines is far below the number of pairs of
    rows. Each user's sum over the batch is computed once, and each row subtracts its own positive from it.

    Args:
        users: vectors of the distinct users, [n, D].
        items: vectors of the distinct items, [m, D].
        rows: positions of the batch's users and of their positives among them, int64 [batch] each.
        margin: M, [batch].
        temperature: temperature of the softmax.
    """
    cosines = F.normalize(users, dim=-1, eps=MIN_NORM) @ F.normalize(items, dim=-1, eps=MIN_NORM).T
    highest = cosines.detach().amax(1)
    exponentials = ((cosines - highest[:, None]) / temperature).exp()
    counts = torch.bincount(rows[1], minlength=len(items)).to(exponentials)
    others = sum_without_own(exponentials * counts, rows[0], exponentials[rows])
    positive = (add_margin(cosines[rows], margin) - highest[rows[0]]).double() / temperature
    return (torch.log(others + positive.exp()) - positive).mean().to(cosines.dtype)


def vectors_with_margin(
    users: Tensor, items: Tensor, positives: Tensor, negatives: Tensor, margin: Tensor, temperature: float
) -> Tensor:
    """Return the loss of vectors with separate negatives for each positive; on the CPU its gradient has a closed form.

    Args:
        users: vectors of the users, [batch, D].
        items: vectors of the distinct items of the batch, [m, D].
        positives: positions of the positives among the items, int64 [batch].
        negatives: positions of the negatives among the items, int64 [batch, N].
        margin: M, [batch].
        temperature: temperature of the softmax.
    """
    if users.device.type != "cpu" or users.dtype != items.dtype or users.dtype not in (torch.float32, torch.float64):
        return plain_vectors_with_margin(users, items, positives, negatives, margin, temperature)
    rows: list[FloatArray] = [one.detach().contiguous().numpy() for one in (users, items)]
    units, norms = [np.empty_like(one) for one in rows], [np.empty(len(one), one.dtype) for one in rows]
    for one, unit, norm in zip(rows, units, norms, strict=True):
        normalise(one, unit, norm, MIN_NORM)
    grads = [np.zeros_like(one) for one in rows]
    angles = margin.detach().to(users.dtype).numpy()
    codes = positives.numpy(), negatives.numpy()
    value = margin_softmax(*units, *codes, angles, temperature, *grads, _MIN_SINE_SQUARED)  # type: ignore[call-arg]
    for one, unit, norm, grad in zip(rows, units, norms, grads, strict=True):
        through_norm(grad, unit, norm, one, 0.0)
    return with_gradients(value, [torch.from_numpy(grad) for grad in grads], [users, items])


def plain_vectors_with_margin(
    users: Tensor, items: Tensor, positives: Tensor, negatives: Tensor, margin: Tensor, temperature: float
) -> Tensor:
    """Return :func:`vectors_with_margin` computed by torch alone; tests compare the closed form with it."""
    user, item = F.normalize(users, dim=-1, eps=MIN_NORM), F.normalize(items, dim=-1, eps=MIN_NORM)
    codes = torch.cat([positives[:, None], negatives], 1)
    cosines = torch.bmm(F.embedding(codes, item), user[:, :, None])[:, :, 0]
    return softmax_with_margin(cosines, margin, temperature)
