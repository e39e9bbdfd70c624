"""Losses that pass gradients computed in closed form to autograd."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor


def with_gradients(value: float | Tensor, grads: Sequence[Tensor], inputs: Sequence[Tensor]) -> Tensor:
    """Return a scalar tensor whose backward pass gives the inputs these gradients.

    On the few rows of a batch, the bookkeeping of autograd costs more than the arithmetic, so closed forms are faster.
    The gradients are not copied, so that only one backward pass is possible.

    Args:
        value: the number.
        grads: gradients, one for each input and of its shape.
        inputs: the tensors from which the number was computed.

    Example:
        >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
        >>> with_gradients(5.0, [torch.tensor([2.0, 4.0])], [x]).backward()
        >>> x.grad
        tensor([2., 4.])
    """
    loss: Tensor = _PrecomputedGradient.apply(float(value), list(grads), *inputs)  # type: ignore[no-untyped-call]
    return loss


class _PrecomputedGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, value: float, grads: list[Tensor], *inputs: Tensor) -> Tensor:
        ctx.grads = grads
        return inputs[0].new_tensor(value)

    @staticmethod
    def backward(ctx: Any, *outer: Tensor) -> tuple[Any, ...]:
        # Autograd copies a gradient to which another reference exists, so the context gives its reference up.
        grads, ctx.grads = ctx.grads, None
        if grads is None:
            raise RuntimeError(
                "the precomputed gradients of this loss were used already; compute the loss again before backward()"
            )
        factor = float(outer[0])
        return (None, None, *(grad if factor == 1 else grad * factor for grad in grads))
