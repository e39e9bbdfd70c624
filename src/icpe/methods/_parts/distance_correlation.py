"""Distance correlation, a differentiable measure of how much two sets of vectors depend on each other."""

import math
from typing import Any

import torch
from torch import Tensor

_EPS = 1e-8  # added under every root, so that the gradient of constant rows is finite
_MATRICES = 5  # distances and centred distances of both sides, and one for intermediate results


class DistanceCorrelation:
    """Distance correlation of paired rows [n, d] and [n, e] (Székely et al. 2007), one number from 0 to 1.

    With A and C the double-centred matrices of Euclidean distances within each side, it is
    √mean(A∘C) / √(√mean(A∘A) · √mean(C∘C)). It is 1 if one side is the other one rotated, scaled and shifted. For
    independent rows it approaches 0 only as n grows, so compare only values of the same n.

    The gradient has a closed form and is computed together with the value. The n × n matrices are kept between calls,
    because allocating them each time would take most of the time.

    Example:
        >>> rows = torch.tensor([[0.0, 1.0], [2.0, 0.0], [3.0, 5.0]])
        >>> round(float(DistanceCorrelation()(rows, 4 - 2 * rows)), 4)
        1.0
    """

    def __init__(self) -> None:
        self._memory = torch.empty(0)

    def __call__(self, first: Tensor, second: Tensor) -> Tensor:
        """Return the distance correlation, differentiable with respect to both sides.

        Raises:
            ValueError: the two sides have different numbers of rows, or none.
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
            # Centring is a symmetric projection, so the gradient at the distances need not be centred again.
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
    """Rows, the distances between them, and the double-centred distances."""

    def __init__(self, rows: Tensor, distances: Tensor, centred: Tensor) -> None:
        self._rows = rows - rows.mean(0)
        squares = self._rows.square().sum(1, keepdim=True)
        ones = torch.ones_like(squares)
        # |x|² + |y|² − 2·x·y as one matrix product is faster than cdist.
        left, right = torch.cat([-2 * self._rows, squares, ones], 1), torch.cat([self._rows, ones, squares], 1)
        torch.mm(left, right.T, out=distances)
        # Equal rows differ by rounding errors only; as a distance, such an error would get a direction.
        rounding = 16 * torch.finfo(rows.dtype).eps * float(squares.max())
        self._distances = torch.threshold_(distances, rounding, 0.0).fill_diagonal_(0.0).sqrt_()
        means = distances.mean(1)
        half = means - 0.5 * means.mean()
        self._centred = torch.sub(distances, half[:, None], out=centred).sub_(half)

    def dot(self, other: "_Side") -> float:
        return float(torch.dot(self._centred.view(-1), other._centred.view(-1)))

    def gradient(self, other: "_Side", across: float, own: float, weights: Tensor) -> Tensor:
        """Return the gradient at the rows, given the gradient ``across``·C − ``own``·A at the distances.

        This overwrites the distances, so it must be the last call.
        """
        torch.mul(other._centred, across, out=weights).sub_(self._centred, alpha=own)
        # Distances of 0 become infinite, so that equal rows get no gradient and nothing is divided by 0.
        weights.div_(torch.threshold_(self._distances, 0.0, math.inf))
        return 2 * (weights.sum(1, keepdim=True) * self._rows - torch.mm(weights, self._rows))
