"""Parts of InvPref: the logit of a product of probabilities, reversed gradients, and the best environment of a pair."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor


def joint_logit(one: Tensor, other: Tensor) -> Tensor:
    """Return the logit of σ(one)·σ(other), elementwise: −log(e^−a + e^−b + e^−(a+b)).

    The cross-entropy of the product is then softplus of ∓ this logit, which neither overflows nor loses small digits.
    The direct form log(1 − σ(a)·σ(b)) is infinite in float32 from a = b = 20 on.

    Example:
        >>> a, b = torch.tensor(0.5), torch.tensor(-1.0)
        >>> bool(torch.isclose(torch.sigmoid(joint_logit(a, b)), torch.sigmoid(a) * torch.sigmoid(b)))
        True
    """
    # Without the factor e^−low, the sum is 1 + e^(low − high), which is at most 2, plus e^−high.
    low, high = torch.minimum(one, other), torch.maximum(one, other)
    return low - torch.logaddexp(F.softplus(low - high), -high)


class _Products(torch.autograd.Function):
    """See :func:`logits_of_products`."""

    @staticmethod
    def forward(ctx: Any, users: Tensor, items: Tensor, weight: Tensor, factors: Tensor) -> tuple[Tensor, Tensor]:
        size, width = users.shape
        products = torch.empty_like(items)
        torch.mul(users, items[:size], out=products[:size])
        torch.mul(users[:, None], items[size:].view(size, -1, width), out=products[size:].view(size, -1, width))
        ctx.save_for_backward(users, items, weight, factors, products)
        norms = mean_square(users) + mean_square(items[:size]) + mean_square(items[size:])
        return torch.mm(products, weight.T), norms

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        users, items, weight, factors, products = ctx.saved_tensors
        outer, to_norms = gradients[0], 2 * float(gradients[1])
        size, width = users.shape
        to_products = torch.mm(outer, factors * weight)
        to_weight = torch.mm(outer.T, products)
        by_row = to_products * items
        to_users = by_row[size:].view(size, -1, width).sum(1).add_(by_row[:size])
        to_items = to_products
        to_items[:size].mul_(users)
        to_items[size:].view(size, -1, width).mul_(users[:, None])
        if to_norms:
            to_users.add_(users, alpha=to_norms / size)
            to_items[:size].add_(items[:size], alpha=to_norms / size)
            to_items[size:].add_(items[size:], alpha=to_norms / (len(items) - size))
        return to_users, to_items, to_weight, None


def logits_of_products(users: Tensor, items: Tensor, weight: Tensor, factors: Tensor) -> tuple[Tensor, Tensor]:
    """Return linear maps of the products z_u ∘ z_i, and the squared norms of the rows for an L2 term.

    A single autograd function takes the place of many small ones, each of which would read and write all rows again.

    Args:
        users: representations of the users, [b, D].
        items: representations of the positives and then of K negatives for each, [b + b·K, D].
        weight: the linear maps, [n, D].
        factors: factors of the gradients that reach users and items, [n, 1]. The gradient of ``weight`` stays as it is.

    Returns:
        The logits [b + b·K, n], and the mean squared norm of users + of positives + of negatives.
    """
    logits, norms = _Products.apply(users, items, weight, factors)  # type: ignore[no-untyped-call]
    return logits, norms


def mean_square(rows: Tensor) -> Tensor:
    """Return the mean squared norm of rows [n, D]."""
    flat = rows.reshape(-1)
    return torch.dot(flat, flat) / max(len(rows), 1)


class _Reversed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, strength: float) -> Tensor:
        ctx.strength = strength
        return values.view_as(values)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return gradients[0] * -ctx.strength, None


def reverse_gradient(values: Tensor, strength: float) -> Tensor:
    """Return the values unchanged; their gradient is multiplied by −strength (Ganin & Lempitsky 2015)."""
    same: Tensor = _Reversed.apply(values, strength)  # type: ignore[no-untyped-call]
    return same


def best_environments(logits: Tensor, positive: bool, rng: torch.Generator | None = None) -> Tensor:
    """Return the environment in which each pair has the smallest loss, [n, environments] → int64 [n].

    The loss is the cross-entropy of σ(a)·σ(b). For any a it falls with b for positives and rises with b for negatives,
    so the largest or the smallest b decides. Ties are broken at random.

    Args:
        logits: b of each pair in each environment.
        positive: whether the pairs are positives.
        rng: generator that breaks ties.
    """
    signed = logits if positive else -logits
    tied = signed == signed.amax(1, keepdim=True)
    order = torch.rand(signed.shape, generator=rng, device=signed.device, dtype=signed.dtype)
    return torch.where(tied, order, -1.0).argmax(1)
