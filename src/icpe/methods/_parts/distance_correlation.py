"""How far two sets of vectors depend on each other, in a form that can be minimised."""

import math
from typing import Any

import torch
from torch import Tensor

_EPS = 1e-8  # under every root, so that the gradient of constant rows is finite
_MATRICES = 5  # distances and centred distances of both sides, and one to work in


class DistanceCorrelation:
    """Distance correlation of paired rows [n, d] and [n, e] (Székely et al. 2007), one number from 0 to 1.

    With A and C the double-centred matrices of Euclidean distances within each side, it is
    √mean(A∘C) / √(√mean(A∘A) · √mean(C∘C)). It is 1 where one side is the other turned, scaled and shifted. That of
    independent rows goes to 0 only as n grows, so compare numbers of one n.

    The gradient is known in closed form and made along with the value. The n × n matrices are kept from call to call:
    with fresh memory each time, most of the time would go into getting it.

    Example:
        >>> rows = torch.tensor([[0.0, 1.0], [2.0, 0.0], [3.0, 5.0]])
        >>> round(float(DistanceCorrelation()(rows, 4 - 2 * rows)), 4)
        1.0
    """

    def __init__(self) -> None:
        self._memory = torch.empty(0)

    def __call__(self, first: Tensor, second: Tensor) -> Tensor:
        """The value, with gradients for both sides.

        Raises:
            ValueError: the two do not have the same number of rows, or none.
        """
        if len(first) != len(second) or len(first) == 0:
            raise ValueError(f"{len(first)} rows on one side and {len(second)} on the other; expected pairs")
        value: Tensor = _DistanceCorrelation.apply(first, second, self._matrices(first))  # type: ignore[no-untyped-call]
        return value

    def _matrices(self, like: Tensor) -> Tensor:
        needed = _MATRICES * len(like) ** 2
        fits = self._memory.dtype == like.dtype and self._memory.device == like.device
        if not fits or len(self._memory) < needed:
            self._memory = torch.empty(needed, dtype=like.dtype, device=like.device)
        return self._memory[:needed].view(_MATRICES, len(like), len(like))


class _DistanceCorrelation(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, first: Tensor, second: Tensor, matrices: Tensor) -> Tensor:
        one, two = _Side(first, matrices[0], matrices[1]), _Side(second, matrices[2], matrices[3])
        pairs = len(first) ** 2
        common, of_one, of_two = one.dot(two) / pairs, one.dot(one) / pairs, two.dot(two) / pairs
        value = math.sqrt(max(common, 0.0) + _EPS) / ((of_one + _EPS) * (of_two + _EPS)) ** 0.25
        if any(ctx.needs_input_grad):
            # Centring is a symmetric projection, so the gradient at the distances needs no centring of its own.
            pull = value / (2 * pairs)
            across = pull / (common + _EPS) if common > 0 else 0.0
            ctx.save_for_backward(
                one.gradient(two, across, pull / (of_one + _EPS), matrices[4]),
                two.gradient(one, across, pull / (of_two + _EPS), matrices[4]),
            )
        return first.new_tensor(value)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, outer: Tensor) -> tuple[Tensor, Tensor, None]:
        of_first, of_second = ctx.saved_tensors
        return outer * of_first, outer * of_second, None


class _Side:
    """Rows, the distances between them, and those double-centred."""

    def __init__(self, rows: Tensor, distances: Tensor, centred: Tensor) -> None:
        self._rows = rows - rows.mean(0)
        squares = self._rows.square().sum(1, keepdim=True)
        ones = torch.ones_like(squares)
        # |x|² + |y|² − 2·x·y as one product of matrices: faster than cdist.
        left, right = torch.cat([-2 * self._rows, squares, ones], 1), torch.cat([self._rows, ones, squares], 1)
        torch.mm(left, right.T, out=distances)
        # What is left of equal rows is rounding; taken for a distance, it would have a direction.
        rounding = 16 * torch.finfo(rows.dtype).eps * float(squares.max())
        self._distances = torch.threshold_(distances, rounding, 0.0).fill_diagonal_(0.0).sqrt_()
        means = distances.mean(1)
        half = means - 0.5 * means.mean()
        self._centred = torch.sub(distances, half[:, None], out=centred).sub_(half)

    def dot(self, other: "_Side") -> float:
        return float(torch.dot(self._centred.view(-1), other._centred.view(-1)))

    def gradient(self, other: "_Side", across: float, own: float, weights: Tensor) -> Tensor:
        """At the rows, of a value with the gradient ``across``·C − ``own``·A at the distances; the last it can do."""
        torch.mul(other._centred, across, out=weights).sub_(self._centred, alpha=own)
        # An infinite distance has no direction: that leaves out equal rows without a division by 0.
        weights.div_(torch.threshold_(self._distances, 0.0, math.inf))
        return 2 * (weights.sum(1, keepdim=True) * self._rows - torch.mm(weights, self._rows))
