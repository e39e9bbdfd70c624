"""Scores whose gradients are weighted for some parameters and not for others, in one backward pass."""

from typing import Any

import torch
from torch import Tensor

from icpe.backbones.base import Backbone


class _ScaleGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, factors: Tensor) -> Tensor:
        ctx.save_for_backward(factors)
        return values.view_as(values)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (factors,) = ctx.saved_tensors
        return gradients[0] * factors, None


def scale_gradient(values: Tensor, factors: Tensor) -> Tensor:
    """Return the values unchanged; their gradient is multiplied by the factor of each row."""
    factors = factors.view(*factors.shape, *[1] * (values.dim() - factors.dim()))
    scaled: Tensor = _ScaleGradient.apply(values, factors)  # type: ignore[no-untyped-call]
    return scaled


def weighed_score(backbone: Backbone, users: Tensor, items: Tensor, weight: Tensor | None) -> Tensor:
    """Return the scores of pairs; their gradient is weighted for all parameters except the items' representations."""
    if weight is None:
        return backbone.score(users, items)
    return scale_gradient(backbone.score(users, scale_gradient(items, 1 / weight)), weight)
