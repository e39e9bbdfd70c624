"""What CausPref computes on its graph: how far it is from having no cycles, and the loss of pairs along it.

Matrices are few and small, rows are many. So what stands between the rows is multiplied first: with encoders E_p and
E_v and their shifts β_p and β_v, the score is (z_u·Wᵀ + z_i·A)·(z_i·M + m) + z_i·c + β_p·β_v, where M = E_vᵀE_p,
m = β_v·E_p and c = E_vᵀβ_p. The last term is the same for all items and leaves pairwise losses alone.
"""

import math
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from icpe.methods._parts.precomputed_gradient import with_gradients


class _Acyclicity(torch.autograd.Function):
    """The exponential serves value and gradient; autograd would compute another one of twice the width."""

    @staticmethod
    def forward(ctx: Any, links: Tensor) -> Tensor:
        paths = _exponential(links * links)
        ctx.save_for_backward(links, paths)
        return (paths.diagonal() - 1).sum()  # one by one: the trace less D would lose the small digits

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        links, paths = ctx.saved_tensors
        gradient: Tensor = 2 * gradients[0] * links * paths.T
        return gradient


def acyclicity(links: Tensor) -> Tensor:
    """h(A) = tr(exp(A ∘ A)) − D of a square matrix [D, D]: 0 if and only if its graph has no cycle, else above 0.

    The gradient is 2A ∘ exp(A ∘ A)ᵀ (Zheng et al. 2018). It can be taken once, not twice.

    Example:
        >>> float(acyclicity(torch.tensor([[0.0, 3.0], [0.0, 0.0]])))
        0.0
        >>> float(acyclicity(torch.tensor([[0.0, 1.0], [1.0, 0.0]]))) > 1
        True
    """
    value: Tensor = _Acyclicity.apply(links)  # type: ignore[no-untyped-call]
    return value


def _exponential(matrix: Tensor) -> Tensor:
    """torch.matrix_exp for a small matrix that is not negative, three times as fast: halved, a series, then squared."""
    largest = float(matrix.sum(1).max())
    if not math.isfinite(largest):
        return matrix * torch.nan
    halvings = max(0, 2 + math.ceil(math.log2(max(largest, 1e-9))))
    small, one = matrix / 2**halvings, torch.eye(len(matrix), dtype=matrix.dtype, device=matrix.device)
    # Row sums are at most 1/4 now: what is left out is below (1/4)^(terms + 1) / (terms + 1)!.
    terms = 14 if matrix.dtype == torch.float64 else 8
    total = one
    for number in range(terms, 0, -1):
        total = torch.addmm(one, small, total, alpha=1 / number)
    for _ in range(halvings):
        total = total @ total
    return total


class Matching(NamedTuple):
    """What two encoders come to: M [D, D], m [D] and c [D] of above."""

    matrix: Tensor
    shift: Tensor
    pull: Tensor

    @classmethod
    def of(cls, preference: Tensor, preference_shift: Tensor, item: Tensor, item_shift: Tensor) -> "Matching":
        """Of E_p [D', D], β_p [D'], E_v [D', D] and β_v [D']."""
        return cls(item.T @ preference, item_shift @ preference, preference_shift @ item)

    def wanted(self, items: Tensor) -> Tensor:
        """What a preference is multiplied with, z_i·M + m: [n, D] → [n, D]."""
        return torch.addmm(self.shift, items, self.matrix)


def loss_of_pairs(
    users: Tensor,
    both: Tensor,
    user_links: Tensor,
    item_links: Tensor,
    matching: Matching,
    ranking: float = 1.0,
    reconstruction: float = 0.5,
    reg: float = 0.0,
) -> Tensor:
    """The sum ranking · mean softplus(ŝ_uj − ŝ_ui) + reconstruction · mean ‖p_ui − z_i‖²/D, p_ui = z_u·Wᵀ + z_i·A.

    No gradient goes to the z_i that is predicted. Gradients have a closed form, in two thirds of autograd's time.

    Args:
        users: [b, D].
        both: the positives and then one negative of each, [2b, D].
        user_links: W, [D, D].
        item_links: A, [D, D].
        matching: see there.
        ranking: factor of the first term.
        reconstruction: factor of the second.
        reg: adds λ/2 · (mean squared norm of users + of positives + of negatives).
    """
    inputs = (users, both, user_links, item_links, *matching)
    with torch.no_grad():
        value, grads = _value_and_gradients(*inputs, ranking, reconstruction, reg)
    return with_gradients(value, grads, inputs)


def _value_and_gradients(
    users: Tensor,
    both: Tensor,
    user_links: Tensor,
    item_links: Tensor,
    matrix: Tensor,
    shift: Tensor,
    pull: Tensor,
    ranking: float,
    reconstruction: float,
    reg: float,
) -> tuple[Tensor, tuple[Tensor, ...]]:
    size, width = users.shape
    beside = torch.cat([item_links, matrix], 1)  # one product of twice the width for both
    products = torch.mm(both, beside)
    preferences = (products[:, :width].view(2, size, width) + torch.mm(users, user_links.T)).view(-1, width)
    wanted = products[:, width:] + shift
    scores = (preferences * wanted).sum(1).add_(torch.mv(both, pull))
    behind = scores[size:] - scores[:size]
    error = preferences[:size] - both[:size]
    value = ranking * F.softplus(behind).mean() + reconstruction * _square(error) / error.numel()

    slope = torch.sigmoid(behind).mul_(ranking / size)
    to_scores = torch.cat([-slope, slope])
    to_products = products  # its numbers are not needed any more
    torch.mul(wanted, to_scores[:, None], out=to_products[:, :width])
    torch.mul(preferences, to_scores[:, None], out=to_products[:, width:])
    to_products[:size, :width].add_(error, alpha=2 * reconstruction / error.numel())
    to_mapped = to_products[:size, :width] + to_products[size:, :width]
    to_users, to_both = torch.mm(to_mapped, user_links), torch.mm(to_products, beside.T).addr_(to_scores, pull)
    if reg:
        value = value + 0.5 * reg / size * (_square(users) + _square(both))
        to_users.add_(users, alpha=reg / size)
        to_both.add_(both, alpha=reg / size)
    to_links, to_matrix = torch.mm(both.T, to_products).chunk(2, 1)
    to_shift, to_pull = to_products[:, width:].sum(0), torch.mv(both.T, to_scores)
    return value, (to_users, to_both, torch.mm(to_mapped.T, users), to_links, to_matrix, to_shift, to_pull)


def _square(rows: Tensor) -> Tensor:
    """The sum of all squares."""
    flat = rows.reshape(-1)
    return torch.dot(flat, flat)
