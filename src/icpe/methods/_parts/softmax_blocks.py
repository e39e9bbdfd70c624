"""Softmax of cosines with closed-form gradients. Several threads share a batch, block by block.

All functions take ``rows``: users [b, d], items [b + m, d], offsets of the logits [b + m], weights of the positives and
weights in the gradient of the users [b]. They write the gradients of the first three to ``grads`` and return the loss.
The sums of the blocks are added in their order, so that the results do not depend on the number of threads.
"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from icpe import threads
from icpe.types import FloatArray

NEVER = -1e30  # logit with probability 0; it is finite, because a row may contain no other logits
_EPS = 1e-12  # smallest norm of a row, as in torch.nn.functional.normalize


def softmax_of_rows(
    rows: Sequence[FloatArray], grads: Sequence[FloatArray], temperature: float, codes: Tensor | None, reg: float
) -> float:
    """Return the loss of each positive against shared negatives, which include other positives with ``codes``.

    Args:
        rows: see above.
        grads: arrays for the gradients.
        temperature: temperature of the softmax.
        codes: item codes [b + m] if the positives of other items are negatives too, or None.
        reg: weight λ of the L2 term.
    """
    size = len(rows[0])
    start = size if codes is None else 0  # position of the first negative
    of_users, of_items = Units(rows[0]), Units(rows[1])
    of_items.make(slice(start, None))
    seen = [of_users.units, of_items.units, *(torch.from_numpy(one) for one in rows[2:])]
    user_grads, both_grads, logit_grads = (torch.from_numpy(one) for one in grads)
    both_grads[:size], logit_grads[:size] = 0, 0

    def add_positive(mine: slice, to_positive: Tensor) -> None:
        logit_grads[mine] += to_positive
        both_grads[mine].addcmul_(to_positive[:, None].div_(temperature), of_users.units[mine])

    # What belongs to one user alone is done in its block, because threads wait for each other after every task.
    def block(*part: int) -> tuple[float, Tensor, Tensor, Tensor]:
        mine = slice(*part)
        of_users.make_here(mine)
        if codes is None:
            of_items.make_here(mine)
        found = _block(seen, user_grads, temperature, codes, start, mine)
        of_users.back_here(grads[0], mine, reg / size)
        if codes is None:
            add_positive(mine, found[3])
            of_items.back_here(grads[1], mine, reg / size)
        return found

    found = threads.run_parts(block, threads.blocks(size))
    both_grads[start:] = add_in_order([one[1] for one in found])
    logit_grads[start:] = add_in_order([one[2] for one in found])
    if codes is not None:
        add_positive(slice(size), torch.cat([one[3] for one in found]))
        of_items.back(grads[1], slice(size), reg)
    of_items.back(grads[1], slice(size, None), reg)
    value = sum(one[0] for one in found) + of_users.penalty(slice(None), reg)
    return value + of_items.penalty(slice(size), reg) + of_items.penalty(slice(size, None), reg)


def _block(
    seen: Sequence[Tensor],
    user_grads: Tensor,
    temperature: float,
    codes: Tensor | None,
    start: int,
    mine: slice,
) -> tuple[float, Tensor, Tensor, Tensor]:
    """Write the gradients of the unit vectors of some users. Return what the other gradients need.

    Returns:
        The share of the loss, the gradients of the unit vectors of the negatives and of their logits as far as these
        users are concerned, and the gradients of the logits of the positives.
    """
    users, items, offsets, weights, user_weights = seen
    size = len(users)
    user, item, drawn = users[mine], items[mine], items[start:]
    positive = (user * item).sum(1).div_(temperature).add_(offsets[mine])
    negative = torch.mm(user, drawn.T).div_(temperature).add_(offsets[start:])
    if codes is not None:
        negative.masked_fill_(codes[mine, None] == codes, NEVER)
    # torch computes the softmax of the negatives in one fast pass; its largest entry gives the sum it was divided by.
    chance = torch.softmax(negative, 1)
    others = negative.amax(1) - chance.amax(1).log()
    total = torch.logaddexp(others, positive)
    value = float((weights[mine] * (total - positive)).mean()) * (len(user) / size)

    share = weights[mine] / size
    to_positive = share * torch.expm1(positive - total)
    to_negative = chance.mul_((share * (others - total).exp())[:, None])
    logit_grads = torch.sum(to_negative, 0)
    of_positive, to_negative = to_positive[:, None] / temperature, to_negative.div_(temperature)
    torch.mm(to_negative, drawn, out=user_grads[mine]).addcmul_(of_positive, item).mul_(user_weights[mine, None])
    return value, torch.mm(to_negative.T, user), logit_grads, to_positive


def add_in_order(parts: Sequence[Tensor]) -> Tensor:
    """Return the sum of the parts, added to the first one in their order."""
    for other in parts[1:]:
        parts[0].add_(other)
    return parts[0]


def softmax_of_groups(
    rows: Sequence[FloatArray],
    grads: Sequence[FloatArray],
    temperature: float,
    codes: Tensor,
    group: int,
    reg: float,
) -> float:
    """Return the loss of each positive against the other positives of its group, of other items.

    Each ``group`` consecutive rows form a group, and the remaining rows form the last one; ``codes`` are the items.
    """
    units, size = [Units(one) for one in rows[:2]], len(rows[0])
    inputs = [one.units for one in units] + [torch.from_numpy(one) for one in rows[2:]] + [codes]
    outputs = [torch.from_numpy(one) for one in grads]
    whole, together = size // group * group, max(1, threads.BLOCK // group) * group
    parts = [(slice(*ends), group) for ends in pairwise([*range(0, whole, together), whole])]
    parts += [(slice(whole, None), size - whole)] if whole < size else []

    def groups(part: slice, length: int) -> float:
        for one in units:
            one.make_here(part)
        seen, made = ([one[part].view(-1, length, *one.shape[1:]) for one in of] for of in (inputs, outputs))
        value = _groups(seen, made, temperature, 1 / size)
        for one, grad in zip(units, grads, strict=False):
            one.back_here(grad, part, reg / size)
        return value

    value = sum(threads.run_parts(groups, parts))
    return value + sum(one.penalty(slice(None), reg) for one in units)


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
    negative.masked_fill_(codes[:, :, None] == codes[:, None], NEVER)
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


class Units:
    """Rows [n, d] as unit vectors, and the backward pass through the normalisation.

    Args:
        rows: the rows.

    Attributes:
        units: the unit vectors, as far as they have been made.
    """

    def __init__(self, rows: FloatArray) -> None:
        self._rows, self._units, self._norms = rows, np.empty_like(rows), np.empty(len(rows), rows.dtype)
        self.units = torch.from_numpy(self._units)

    def make(self, part: slice) -> "Units":
        """Make the unit vectors of some rows on several threads, and return this object."""
        threads.run_parts(self.make_here, self._pieces(part))
        return self

    def make_here(self, part: slice) -> None:
        """Make the unit vectors of some rows on this thread."""
        from icpe.kernels.losses import normalise

        normalise(self._rows[part], self._units[part], self._norms[part], _EPS)

    def back(self, grads: FloatArray, part: slice, reg: float) -> None:
        """Change the gradients of some rows, in place, from those of the unit vectors.

        Args:
            grads: gradients of all unit vectors, [n, d].
            part: positions of the rows.
            reg: weight λ of the L2 term, whose gradient is added.
        """
        pieces, count = self._pieces(part), len(self._norms[part])
        threads.run_parts(self.back_here, [(grads, mine, reg / count) for (mine,) in pieces if count])

    def back_here(self, grads: FloatArray, part: slice, pull: float) -> None:
        """Do the same on this thread. ``pull`` is λ over the number of all rows in the mean."""
        from icpe.kernels.losses import through_norm

        through_norm(grads[part], self._units[part], self._norms[part], self._rows[part], pull)

    def penalty(self, part: slice, reg: float) -> float:
        """Return the L2 term of some rows."""
        norms = self._norms[part]
        return 0.5 * reg * float(np.square(norms, dtype=np.float64).mean()) if reg and len(norms) else 0.0

    def _pieces(self, part: slice) -> list[tuple[slice]]:
        """Return the stretches of some rows."""
        first, last, _ = part.indices(len(self._rows))
        return [(slice(first + begin, first + end),) for begin, end in threads.stretches(last - first)]
