"""The graph of CausPref: a measure of its cycles, and the loss of pairs that are scored along it.

The matrices are few and small and the rows are many, so the matrices are multiplied with each other first. With
encoders E_p and E_v and their shifts β_p and β_v, the score is (z_u·Wᵀ + z_i·A)·(z_i·M + m) + z_i·c + β_p·β_v, where M
= E_vᵀE_p, m = β_v·E_p and c = E_vᵀβ_p. The last term is the same for all items and does not change pairwise losses.
"""

import math
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from icpe.methods._parts.precomputed_gradient import with_gradients


class _Acyclicity(torch.autograd.Function):
    """One exponential gives the value and the gradient; autograd would compute another one of twice the width."""

    @staticmethod
    def forward(ctx: Any, links: Tensor) -> Tensor:
        paths = _exponential(links * links)
        ctx.save_for_backward(links, paths)
        return (paths.diagonal() - 1).sum()  # subtracting D from the trace would lose the small digits

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        links, paths = ctx.saved_tensors
        gradient: Tensor = 2 * gradients[0] * links * paths.T
        return gradient


def acyclicity(links: Tensor) -> Tensor:
    """Return h(A) = tr(exp(A ∘ A)) − D of a matrix A [D, D]: 0 if its graph has no cycle, otherwise above 0.

    The gradient is 2A ∘ exp(A ∘ A)ᵀ (Zheng et al. 2018). Second derivatives are not supported.

    Example:
        >>> float(acyclicity(torch.tensor([[0.0, 3.0], [0.0, 0.0]])))
        0.0
        >>> float(acyclicity(torch.tensor([[0.0, 1.0], [1.0, 0.0]]))) > 1
        True
    """
    value: Tensor = _Acyclicity.apply(links)  # type: ignore[no-untyped-call]
    return value


def _exponential(matrix: Tensor) -> Tensor:
    """Return ``torch.matrix_exp`` of a small non-negative matrix, three times as fast, by scaling and squaring."""
    largest = float(matrix.sum(1).max())
    if not math.isfinite(largest):
        return matrix * torch.nan
    halvings = max(0, 2 + math.ceil(math.log2(max(largest, 1e-9))))
    small, one = matrix / 2**halvings, torch.eye(len(matrix), dtype=matrix.dtype, device=matrix.device)
    # Row sums are at most 1/4 now, so the error of the series is below (1/4)^(terms + 1) / (terms + 1)!.
    terms = 14 if matrix.dtype == torch.float64 else 8
    total = one
    for number in range(terms, 0, -1):
        total = torch.addmm(one, small, total, alpha=1 / number)
    for _ in range(halvings):
        total = total @ total
    return total


class Matching(NamedTuple):
    """The two encoders combined: M [D, D], m [D] and c [D] of the module's formula."""

    matrix: Tensor
    shift: Tensor
    item_term: Tensor

    @classmethod
    def of(cls, preference: Tensor, preference_shift: Tensor, item: Tensor, item_shift: Tensor) -> "Matching":
        """Return the combination of E_p [D', D], β_p [D'], E_v [D', D] and β_v [D']."""
        return cls(item.T @ preference, item_shift @ preference, preference_shift @ item)

    def targets(self, items: Tensor) -> Tensor:
        """Return z_i·M + m, the vectors that preferences are multiplied with: [n, D] → [n, D]."""
        return torch.addmm(self.shift, items, self.matrix)


def loss_of_pairs(
    users: Tensor,
    items: Tensor,
    user_links: Tensor,
    item_links: Tensor,
    matching: Matching,
    ranking_weight: float = 1.0,
    reconstruction_weight: float = 0.5,
    reg: float = 0.0,
) -> Tensor:
    """Return c_b · mean softplus(ŝ_uj − ŝ_ui) + c_r · mean ‖p_ui − z_i‖²/D with p_ui = z_u·Wᵀ + z_i·A.

    The predicted z_i gets no gradient. The closed-form gradients take two thirds of the time of autograd.

    Args:
        users: representations of the users, [b, D].
        items: representations of the positives and then of one negative for each, [2b, D].
        user_links: W, [D, D].
        item_links: A, [D, D].
        matching: the encoders.
        ranking_weight: c_b.
        reconstruction_weight: c_r.
        reg: adds λ/2 · (mean squared norm of users + of positives + of negatives).
    """
    inputs = (users, items, user_links, item_links, *matching)
    with torch.no_grad():
        value, grads = _value_and_gradients(*inputs, ranking_weight, reconstruction_weight, reg)
    return with_gradients(value, grads, inputs)


def _value_and_gradients(
    users: Tensor,
    items: Tensor,
    user_links: Tensor,
    item_links: Tensor,
    matrix: Tensor,
    shift: Tensor,
    item_term: Tensor,
    ranking_weight: float,
    reconstruction_weight: float,
    reg: float,
) -> tuple[Tensor, tuple[Tensor, ...]]:
    size, width = users.shape
    joined = torch.cat([item_links, matrix], 1)  # one product of twice the width instead of two products
    products = torch.mm(items, joined)
    preferences = (products[:, :width].view(2, size, width) + torch.mm(users, user_links.T)).view(-1, width)
    targets = products[:, width:] + shift
    scores = (preferences * targets).sum(1).add_(torch.mv(items, item_term))
    gaps = scores[size:] - scores[:size]
    error = preferences[:size] - items[:size]
    value = ranking_weight * F.softplus(gaps).mean() + reconstruction_weight * _square(error) / error.numel()

    slope = torch.sigmoid(gaps).mul_(ranking_weight / size)
    score_grads = torch.cat([-slope, slope])
    product_grads = products  # the memory is used again; its values are no longer needed
    torch.mul(targets, score_grads[:, None], out=product_grads[:, :width])
    torch.mul(preferences, score_grads[:, None], out=product_grads[:, width:])
    product_grads[:size, :width].add_(error, alpha=2 * reconstruction_weight / error.numel())
    mapped_grads = product_grads[:size, :width] + product_grads[size:, :width]
    user_grads = torch.mm(mapped_grads, user_links)
    item_grads = torch.mm(product_grads, joined.T).addr_(score_grads, item_term)
    if reg:
        value = value + 0.5 * reg / size * (_square(users) + _square(items))
        user_grads.add_(users, alpha=reg / size)
        item_grads.add_(items, alpha=reg / size)
    link_grads, matrix_grads = torch.mm(items.T, product_grads).chunk(2, 1)
    shift_grads, term_grads = product_grads[:, width:].sum(0), torch.mv(items.T, score_grads)
    map_grads = torch.mm(mapped_grads.T, users)
    return value, (user_grads, item_grads, map_grads, link_grads, matrix_grads, shift_grads, term_grads)


def _square(rows: Tensor) -> Tensor:
    """Return the sum of all squares."""
    flat = rows.reshape(-1)
    return torch.dot(flat, flat)
