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
from icpe.types import FloatArray

ENABLED = True  # with False torch computes everything, which helps to compare the two or to find an error
_EPS = 1e-12  # smallest norm of a row, as in torch.nn.functional.normalize
_NEVER = -1e30  # logit with probability 0; it is finite, because a row may contain no other logits


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
    value = bce(*rows, scale, neg_weight, reg, *grads)  # type: ignore[call-arg]
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
    value = bpr(*rows, scale, reg, *grads)  # type: ignore[call-arg]
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
    size = len(users)
    start = size if codes is None else 0  # position of the first negative
    of_users, of_items = _Units(rows[0]), _Units(rows[1])
    user, item, drawn = of_users.units, of_items.units[:size], of_items.units[start:]
    offsets, weights, user_weights = (torch.from_numpy(one) for one in rows[2:])
    user_grads, both_grads, logit_grads = (torch.from_numpy(one) for one in grads)

    positive = (user * item).sum(1).div_(temperature).add_(offsets[:size])
    negative = torch.mm(user, drawn.T).div_(temperature).add_(offsets[start:])
    if codes is not None:
        negative.masked_fill_(codes[:size, None] == codes, _NEVER)
    # torch computes the softmax of the negatives in one fast pass; its largest entry gives the sum it was divided by.
    chance = torch.softmax(negative, 1)
    others = negative.amax(1) - chance.amax(1).log()
    total = torch.logaddexp(others, positive)
    value = float((weights * (total - positive)).mean())

    share = weights / size
    to_positive = share * torch.expm1(positive - total)
    to_negative = chance.mul_((share * (others - total).exp())[:, None])
    logit_grads[:size] = 0
    torch.sum(to_negative, 0, out=logit_grads[start:])
    logit_grads[:size] += to_positive
    to_positive, to_negative = to_positive[:, None].div_(temperature), to_negative.div_(temperature)
    both_grads[:size] = 0
    torch.mm(to_negative.T, user, out=both_grads[start:])
    both_grads[:size].addcmul_(to_positive, user)
    torch.mm(to_negative, drawn, out=user_grads).addcmul_(to_positive, item).mul_(user_weights[:, None])
    value += of_users.back(grads[0], slice(None), reg)
    value += of_items.back(grads[1], slice(size), reg) + of_items.back(grads[1], slice(size, None), reg)
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
    units = [_Units(one) for one in rows[:2]]
    inputs = [one.units for one in units] + [torch.from_numpy(one) for one in rows[2:]] + [codes]
    outputs = [torch.from_numpy(one) for one in grads]
    whole = len(users) // group * group
    value = 0.0
    for part, size in ((slice(whole), group), (slice(whole, None), len(users) - whole)):
        if len(users[part]):
            seen, made = ([one[part].view(-1, size, *one.shape[1:]) for one in of] for of in (inputs, outputs))
            value += _groups(seen, made, temperature, 1 / len(users))
    value += sum(one.back(grad, slice(None), reg) for one, grad in zip(units, grads, strict=False))
    return _with_gradients(value, users, items, offset, grads)


def _groups(seen: Sequence[Tensor], made: Sequence[Tensor], temperature: float, share: float) -> float:
    """Return the loss of groups of the same size and write the gradients of unit vectors and logits to ``made``.

    Args:
        seen: unit vectors of users and items [g, b, d], offsets, weights, user weights and codes [g, b].
        made: arrays for the gradients of users, items and logits.
        temperature: temperature of the softmax.
        share: factor of each positive in the mean.
    """
    user, item, offsets, weights, user_weights, codes = seen
    user_grads, item_grads, logit_grads = made
    positive = (user * item).sum(2).div_(temperature).add_(offsets)
    negative = torch.bmm(user, item.mT).div_(temperature).add_(offsets[:, None])
    negative.masked_fill_(codes[:, :, None] == codes[:, None], _NEVER)
    chance = torch.softmax(negative, 2)
    others = negative.amax(2) - chance.amax(2).log()
    total = torch.logaddexp(others, positive)
    weights = weights * share
    value = float((weights * (total - positive)).sum())

    to_positive = weights * torch.expm1(positive - total)
    to_negative = chance.mul_((weights * (others - total).exp())[:, :, None])
    torch.sum(to_negative, 1, out=logit_grads).add_(to_positive)
    to_positive, to_negative = to_positive[:, :, None].div_(temperature), to_negative.div_(temperature)
    torch.bmm(to_negative.mT, user, out=item_grads).addcmul_(to_positive, user)
    torch.bmm(to_negative, item, out=user_grads).addcmul_(to_positive, item).mul_(user_weights[:, :, None])
    return value


class _Units:
    """Rows [n, d] as unit vectors, and the backward pass through the normalisation."""

    def __init__(self, rows: FloatArray) -> None:
        from icpe.kernels.losses import normalise

        self._rows, self._units, self._norms = rows, np.empty_like(rows), np.empty(len(rows), rows.dtype)
        normalise(rows, self._units, self._norms, _EPS)
        self.units = torch.from_numpy(self._units)

    def back(self, grads: FloatArray, part: slice, reg: float) -> float:
        """Return the L2 term of some rows. Their gradients are changed in place from those of the unit vectors.

        Args:
            grads: gradients of all unit vectors, [n, d].
            part: positions of the rows.
            reg: weight λ of the L2 term, whose gradient is added.
        """
        from icpe.kernels.losses import through_norm

        norms, count = self._norms[part], len(self._norms[part])
        if count == 0:
            return 0.0
        through_norm(grads[part], self._units[part], norms, self._rows[part], reg / count)
        return 0.5 * reg * float(np.square(norms, dtype=np.float64).mean()) if reg else 0.0


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
    return own.mean() + neg_weight * F.softplus(negative).mean() + _penalty(users, items, reg)


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
    return (each if weight is None else each * weight).mean() + _penalty(users, items, reg)


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
        negative = negative.masked_fill(codes[: len(users), None] == codes, _NEVER)
    each = torch.logaddexp(positive, torch.logsumexp(negative, 1)) - positive
    return (each if weight is None else each * weight).mean() + _penalty(users, items, reg)


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
    total = _penalty(users, items, reg)
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


def _penalty(users: Tensor, items: Tensor, reg: float) -> Tensor:
    if reg == 0:
        return users.new_zeros(())
    means = [rows.square().sum() / len(rows) for rows in (users, items[: len(users)], items[len(users) :]) if len(rows)]
    return 0.5 * reg * torch.stack(means).sum()
