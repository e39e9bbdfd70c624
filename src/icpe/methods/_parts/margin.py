"""Softmax of cosines in which the angle of the positive is enlarged by a margin.

With θ the angle between a user and an item, a positive counts as cos(θ + M) and a negative as cos θ. The loss of a
batch is the mean cross-entropy of the positives against their negatives on these numbers / temperature.
"""

import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from icpe.kernels.losses import normalise, through_norm
from icpe.kernels.margin import margin_softmax
from icpe.methods._parts.distinct import of_the_others
from icpe.methods._parts.precomputed_gradient import with_gradients
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


def in_batch_with_margin(
    users: Tensor, items: Tensor, rows: tuple[Tensor, Tensor], margin: Tensor, temperature: float
) -> Tensor:
    """The loss of a batch where the positives of all other rows are the negatives.

    A batch holds a user and an item again and again, so that distinct cosines are far fewer than pairs of its rows: a
    user's sum over the batch is found once, and each of their rows takes its own positive out of it.

    Args:
        users: vectors of the distinct users, [n, D].
        items: vectors of the distinct items, [m, D].
        rows: places of the batch's users and of their positives among them, int64 [batch] each.
        margin: M, [batch].
        temperature: of the softmax.
    """
    cosines = F.normalize(users, dim=-1, eps=EPS) @ F.normalize(items, dim=-1, eps=EPS).T
    highest = cosines.detach().amax(1)
    chance = ((cosines - highest[:, None]) / temperature).exp()
    times = torch.bincount(rows[1], minlength=len(items)).to(chance)
    others = of_the_others(chance * times, rows[0], chance[rows])
    positive = (add_margin(cosines[rows], margin) - highest[rows[0]]).double() / temperature
    return (torch.log(others + positive.exp()) - positive).mean().to(cosines.dtype)


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
    places = positives.numpy(), negatives.numpy()
    value = margin_softmax(*units, *places, angles, temperature, *grads, _LEAST)  # type: ignore[call-arg]
    for one, unit, norm, grad in zip(rows, units, norms, grads, strict=True):
        through_norm(grad, unit, norm, one, 0.0)
    return with_gradients(value, [torch.from_numpy(grad) for grad in grads], [users, items])


def plain_vectors_with_margin(
    users: Tensor, items: Tensor, positives: Tensor, negatives: Tensor, margin: Tensor, temperature: float
) -> Tensor:
    """:func:`vectors_with_margin` by torch alone, against which the closed form is tested."""
    user, item = F.normalize(users, dim=-1, eps=EPS), F.normalize(items, dim=-1, eps=EPS)
    places = torch.cat([positives[:, None], negatives], 1)
    cosines = torch.bmm(F.embedding(places, item), user[:, :, None])[:, :, 0]
    return softmax_with_margin(cosines, margin, temperature)
