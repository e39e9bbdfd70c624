"""Losses of inner products, with closed-form gradients on the CPU.

Every function takes ``users`` [b, d] and ``items`` [b + m, d], which are the positives followed by the negatives.
Either m = b · K, with K negatives for each positive in turn, or the batch shares all m negatives. A method that changes
logits or weighs positives uses the other arguments:

* ``offset`` is a tensor [b + m] that is added to the logits and gets a gradient, or an :class:`Offset` that computes
  such a tensor from the rows of the items;
* ``weight`` [b] multiplies the loss of each positive;
* ``user_weight`` [b] multiplies the loss of each positive in the gradient of the users only; the value of the loss does
  not change;
* ``codes`` [b + m], for the softmax only, adds the other positives of the batch as negatives, except those of the same
  item. With ``group`` and m = 0, only positives of the same group are negatives, see :func:`softmax_in_groups`;
* ``reg`` adds λ/2 · (mean squared norm of users + of positives + of negatives), for rows that are trainable themselves.

On other devices, and for types other than float32 and float64, plain torch functions compute the losses. The tests
compare the closed forms with them.
"""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from icpe.methods._parts.precomputed_gradient import with_gradients
from icpe.methods._parts.softmax_blocks import NEVER, softmax_of_groups, softmax_of_rows
from icpe.threads import blocks, run_parts
from icpe.types import FloatArray

ENABLED = True  # with False torch computes everything, which helps to compare the two or to find an error


class Offset(Protocol):
    """A learned function of the item rows [b + m, d] that is added to the logits, with a closed-form gradient."""

    @property
    def parameters(self) -> tuple[Tensor, ...]:
        """The learned parameters."""

    @property
    def cost(self) -> float:
        """The term that the last offsets add to the loss, for example a penalty on their size."""

    def of(self, items: Tensor) -> Tensor:
        """Return the offsets [b + m], computed without autograd."""

    def back(self, grads: Tensor, item_grads: Tensor) -> list[Tensor]:
        """Return the gradients of the parameters and add the gradients of the item rows to ``item_grads`` in place.

        Args:
            grads: gradients of the last offsets, [b + m].
            item_grads: gradients of the item rows, [b + m, d].
        """


def bce_on_rows(
    users: Tensor,
    items: Tensor,
    neg_weight: float = 1.0,
    scale: float = 1.0,
    offset: Tensor | Offset | None = None,
    weight: Tensor | None = None,
    user_weight: Tensor | None = None,
    reg: float = 0.0,
) -> Tensor:
    """Return the mean of weight · softplus(−s⁺) + neg_weight/K · Σ softplus(s⁻), s = scale · (user · item) + offset.

    ``weight`` and ``user_weight`` affect only the term of the positive.
    """
    if not has_closed_form(users, items):
        return plain_bce(users, items, neg_weight, scale, _tensor(offset), weight, user_weight, reg)
    from icpe.kernels.losses import bce

    rows, grads = _arrays(users, items, offset, weight, user_weight)
    value = sum(run_parts(bce, [(*rows, scale, neg_weight, reg, *grads, *part) for part in blocks(len(users))]))
    return _with_gradients(value, users, items, offset, grads)


def bpr_on_rows(
    users: Tensor,
    items: Tensor,
    scale: float = 1.0,
    offset: Tensor | Offset | None = None,
    weight: Tensor | None = None,
    user_weight: Tensor | None = None,
    reg: float = 0.0,
) -> Tensor:
    """Return the mean of weight/K · Σ softplus(s⁻ − s⁺) with s = scale · (user · item) + offset."""
    if not has_closed_form(users, items):
        return plain_bpr(users, items, scale, _tensor(offset), weight, user_weight, reg)
    from icpe.kernels.losses import bpr

    rows, grads = _arrays(users, items, offset, weight, user_weight)
    value = sum(run_parts(bpr, [(*rows, scale, reg, *grads, *part) for part in blocks(len(users))]))
    return _with_gradients(value, users, items, offset, grads)


def softmax_on_rows(
    users: Tensor,
    items: Tensor,
    temperature: float,
    offset: Tensor | Offset | None = None,
    weight: Tensor | None = None,
    user_weight: Tensor | None = None,
    reg: float = 0.0,
    codes: Tensor | None = None,
    group: int = 0,
) -> Tensor:
    """Return the mean of weight · cross-entropy of each positive against the shared negatives.

    The logits are cosine / temperature + offset.
    """
    if codes is not None and group:
        return softmax_in_groups(users, items, temperature, codes, group, offset, weight, user_weight, reg)
    if not has_closed_form(users, items):
        return plain_softmax(users, items, temperature, _tensor(offset), weight, user_weight, reg, codes)
    rows, grads = _arrays(users, items, offset, weight, user_weight)
    value = softmax_of_rows(rows, grads, temperature, codes, reg)
    return _with_gradients(value, users, items, offset, grads)


def softmax_in_groups(
    users: Tensor,
    items: Tensor,
    temperature: float,
    codes: Tensor,
    group: int,
    offset: Tensor | Offset | None = None,
    weight: Tensor | None = None,
    user_weight: Tensor | None = None,
    reg: float = 0.0,
) -> Tensor:
    """Return the loss of :func:`softmax_on_rows` with the other positives of a group, of other items, as negatives.

    Each ``group`` consecutive rows form a group, and the remaining rows form the last one; ``items`` [b, d] contains
    positives only. This costs as much as ``group`` shared negatives, but every positive serves as a negative.
    """
    if not has_closed_form(users, items):
        return plain_groups(users, items, temperature, codes, group, _tensor(offset), weight, user_weight, reg)
    rows, grads = _arrays(users, items, offset, weight, user_weight)
    value = softmax_of_groups(rows, grads, temperature, codes, group, reg)
    return _with_gradients(value, users, items, offset, grads)


def has_closed_form(users: Tensor, items: Tensor) -> bool:
    """Return whether the losses of these rows have closed-form gradients."""
    kinds = (torch.float32, torch.float64)
    return ENABLED and users.device.type == "cpu" and users.dtype == items.dtype and users.dtype in kinds


def _tensor(offset: Tensor | Offset | None) -> Tensor | None:
    if offset is not None and not isinstance(offset, Tensor):
        raise TypeError("an Offset works with closed forms only; check has_closed_form() and pass a tensor otherwise")
    return offset


def _arrays(
    users: Tensor, items: Tensor, offset: Tensor | Offset | None, weight: Tensor | None, user_weight: Tensor | None
) -> tuple[list[FloatArray], list[FloatArray]]:
    """Return the inputs as arrays, and empty arrays for three gradients. Missing inputs become zeros or ones."""
    size, kind = len(users), users.detach().numpy().dtype
    rows = [_array(one, kind) for one in (users, items)]
    added = offset if offset is None or isinstance(offset, Tensor) else offset.of(items)
    rows.append(np.zeros(len(items), kind) if added is None else _array(added, kind))
    rows += [np.ones(size, kind) if one is None else _array(one, kind) for one in (weight, user_weight)]
    return rows, [np.empty_like(one) for one in rows[:3]]


def _array(values: Tensor, kind: Any) -> FloatArray:
    return np.ascontiguousarray(values.detach().numpy(), kind)


def _with_gradients(
    value: float, users: Tensor, items: Tensor, offset: Tensor | Offset | None, grads: Sequence[FloatArray]
) -> Tensor:
    known, more = [torch.from_numpy(grad) for grad in grads], [offset] if isinstance(offset, Tensor) else []
    if offset is not None and not isinstance(offset, Tensor):
        more, known = [*offset.parameters], [*known[:2], *offset.back(known[2], known[1])]
        value += offset.cost
    inputs = [users, items, *more]
    return with_gradients(value, known[: len(inputs)], inputs)


def plain_bce(
    users: Tensor,
    items: Tensor,
    neg_weight: float,
    scale: float,
    offset: Tensor | None,
    weight: Tensor | None,
    user_weight: Tensor | None,
    reg: float,
) -> Tensor:
    """Return the loss of :func:`bce_on_rows`, computed by torch alone. The tests compare the closed form with it."""
    positives, drawn = _split(users, items)
    positive = scale * (_weighted(users, user_weight) * positives).sum(-1)
    negative = scale * (users[:, None] * drawn).sum(-1)
    if offset is not None:
        positive, negative = positive + offset[: len(users)], negative + offset[len(users) :].view_as(negative)
    own = F.softplus(-positive)
    own = own if weight is None else own * weight
    return own.mean() + neg_weight * F.softplus(negative).mean() + rows_penalty(users, items, reg)


def plain_bpr(
    users: Tensor,
    items: Tensor,
    scale: float,
    offset: Tensor | None,
    weight: Tensor | None,
    user_weight: Tensor | None,
    reg: float,
) -> Tensor:
    """Return the loss of :func:`bpr_on_rows`, computed by torch alone."""
    positives, drawn = _split(users, items)
    user = _weighted(users, user_weight)
    positive, negative = scale * (user * positives).sum(-1), scale * (user[:, None] * drawn).sum(-1)
    if offset is not None:
        positive, negative = positive + offset[: len(users)], negative + offset[len(users) :].view_as(negative)
    each = F.softplus(negative - positive[:, None]).mean(1)
    return (each if weight is None else each * weight).mean() + rows_penalty(users, items, reg)


def plain_softmax(
    users: Tensor,
    items: Tensor,
    temperature: float,
    offset: Tensor | None,
    weight: Tensor | None,
    user_weight: Tensor | None,
    reg: float,
    codes: Tensor | None,
) -> Tensor:
    """Return the loss of :func:`softmax_on_rows`, computed by torch alone."""
    user, item = F.normalize(_weighted(users, user_weight), dim=-1), F.normalize(items, dim=-1)
    start = len(users) if codes is None else 0
    positive, negative = (user * item[: len(users)]).sum(-1) / temperature, user @ item[start:].T / temperature
    if offset is not None:
        positive, negative = positive + offset[: len(users)], negative + offset[start:]
    if codes is not None:
        negative = negative.masked_fill(codes[: len(users), None] == codes, NEVER)
    each = torch.logaddexp(positive, torch.logsumexp(negative, 1)) - positive
    return (each if weight is None else each * weight).mean() + rows_penalty(users, items, reg)


def plain_groups(
    users: Tensor,
    items: Tensor,
    temperature: float,
    codes: Tensor,
    group: int,
    offset: Tensor | None,
    weight: Tensor | None,
    user_weight: Tensor | None,
    reg: float,
) -> Tensor:
    """Return the loss of :func:`softmax_in_groups`, computed by torch alone."""
    total = rows_penalty(users, items, reg)
    for first in range(0, len(users), group):
        part = slice(first, first + group)
        added, own, own_user = (None if one is None else one[part] for one in (offset, weight, user_weight))
        mean = plain_softmax(users[part], items[part], temperature, added, own, own_user, 0.0, codes[part])
        total = total + len(users[part]) / len(users) * mean
    return total


def _split(users: Tensor, items: Tensor) -> tuple[Tensor, Tensor]:
    """Return the positives [b, d] and the negatives [b, K, d]."""
    return items[: len(users)], items[len(users) :].view(len(users), -1, items.shape[-1])


def _weighted(users: Tensor, weight: Tensor | None) -> Tensor:
    """Return the same values; their gradients are multiplied by a weight."""
    if weight is None:
        return users
    return users.detach() + weight[:, None] * (users - users.detach())


def rows_penalty(users: Tensor, items: Tensor, reg: float) -> Tensor:
    """Return λ/2 · (mean squared norm of users + of positives + of negatives), computed by torch alone."""
    if reg == 0:
        return users.new_zeros(())
    means = [rows.square().sum() / len(rows) for rows in (users, items[: len(users)], items[len(users) :]) if len(rows)]
    return 0.5 * reg * torch.stack(means).sum()
