"""Parts of InvPref: the logit of two causes at once, gradients that are reversed, and labels by arg-min."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor


def joint_logit(one: Tensor, other: Tensor) -> Tensor:
    """The logit of σ(one)·σ(other), elementwise: −log(e^−a + e^−b + e^−(a+b)).

    So cross-entropy of the product is softplus of ∓ this, which neither overflows nor loses small digits; written down
    as it stands, log(1 − σ(a)·σ(b)) is infinite in float32 from a = b = 20 on.

    Example:
        >>> a, b = torch.tensor(0.5), torch.tensor(-1.0)
        >>> bool(torch.isclose(torch.sigmoid(joint_logit(a, b)), torch.sigmoid(a) * torch.sigmoid(b)))
        True
    """
    # e^−low taken out of the sum leaves 1 + e^(low − high), which is at most 2, and e^−high.
    low, high = torch.minimum(one, other), torch.maximum(one, other)
    return low - torch.logaddexp(F.softplus(low - high), -high)


class _Products(torch.autograd.Function):
    """See :func:`logits_of_products`."""

    @staticmethod
    def forward(ctx: Any, users: Tensor, both: Tensor, weight: Tensor, back: Tensor) -> tuple[Tensor, Tensor]:
        size, width = users.shape
        products = torch.empty_like(both)
        torch.mul(users, both[:size], out=products[:size])
        torch.mul(users[:, None], both[size:].view(size, -1, width), out=products[size:].view(size, -1, width))
        ctx.save_for_backward(users, both, weight, back, products)
        norms = mean_square(users) + mean_square(both[:size]) + mean_square(both[size:])
        return torch.mm(products, weight.T), norms

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        users, both, weight, back, products = ctx.saved_tensors
        outer, to_norms = gradients[0], 2 * float(gradients[1])
        size, width = users.shape
        to_products = torch.mm(outer, back * weight)
        to_weight = torch.mm(outer.T, products)
        by_row = to_products * both
        to_users = by_row[size:].view(size, -1, width).sum(1).add_(by_row[:size])
        to_both = to_products
        to_both[:size].mul_(users)
        to_both[size:].view(size, -1, width).mul_(users[:, None])
        if to_norms:
            to_users.add_(users, alpha=to_norms / size)
            to_both[:size].add_(both[:size], alpha=to_norms / size)
            to_both[size:].add_(both[size:], alpha=to_norms / (len(both) - size))
        return to_users, to_both, to_weight, None


def logits_of_products(users: Tensor, both: Tensor, weight: Tensor, back: Tensor) -> tuple[Tensor, Tensor]:
    """What linear maps make of the products z_u ∘ z_i: logits [b + b·K, n], and the rows' squared norms for an L2 term.

    One function in place of many small ones, for they would read and write all rows again and again.

    Args:
        users: [b, D].
        both: the positives and then K negatives of each, [b + b·K, D].
        weight: [n, D].
        back: [n, 1], factors of the gradients on their way to the rows, but not of those of ``weight``.

    Returns:
        The logits, and the mean squared norm of users + of positives + of negatives.
    """
    logits, norms = _Products.apply(users, both, weight, back)  # type: ignore[no-untyped-call]
    return logits, norms


def mean_square(rows: Tensor) -> Tensor:
    """The mean squared norm of rows [n, D]."""
    flat = rows.reshape(-1)
    return torch.dot(flat, flat) / max(len(rows), 1)


class _Reversed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, alpha: float) -> Tensor:
        ctx.alpha = alpha
        return values.view_as(values)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return gradients[0] * -ctx.alpha, None


def reverse_gradient(values: Tensor, alpha: float) -> Tensor:
    """The values themselves; their gradient is multiplied by −α (Ganin & Lempitsky 2015)."""
    same: Tensor = _Reversed.apply(values, alpha)  # type: ignore[no-untyped-call]
    return same


def best_labels(logits: Tensor, positive: bool, rng: torch.Generator | None = None) -> Tensor:
    """The environment with the least loss of each row, [n, environments] → int64 [n]; of equals one at random.

    The loss is the cross-entropy of σ(a)·σ(b), which falls with b for positives and rises with it for the others,
    whatever a is: the largest or the smallest logit decides.

    Args:
        logits: b of each row in each environment.
        positive: whether the rows are.
        rng: for ties.
    """
    signed = logits if positive else -logits
    tied = signed == signed.amax(1, keepdim=True)
    order = torch.rand(signed.shape, generator=rng, device=signed.device, dtype=signed.dtype)
    return torch.where(tied, order, -1.0).argmax(1)
