"""Losses whose gradients are known already, handed to autograd as they are."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor


def with_gradients(value: float | Tensor, grads: Sequence[Tensor], inputs: Sequence[Tensor]) -> Tensor:
    """A number that, when it is differentiated, has these gradients; once, for they are not copied.

    On the few rows of a batch autograd's bookkeeping costs more than the sums, so that closed forms are worth it.

    Args:
        value: the number.
        grads: one for each input, of its shape.
        inputs: what the number was computed from.

    Example:
        >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
        >>> with_gradients(5.0, [torch.tensor([2.0, 4.0])], [x]).backward()
        >>> x.grad
        tensor([2., 4.])
    """
    loss: Tensor = _Known.apply(float(value), list(grads), *inputs)  # type: ignore[no-untyped-call]
    return loss


class _Known(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, value: float, grads: list[Tensor], *inputs: Tensor) -> Tensor:
        ctx.grads = grads
        return inputs[0].new_tensor(value)

    @staticmethod
    def backward(ctx: Any, *outer: Tensor) -> tuple[Any, ...]:
        grads, ctx.grads = ctx.grads, None  # kept here too, they would be copied where they go
        if grads is None:
            raise RuntimeError("a closed-form gradient is handed out once; compute the loss again")
        factor = float(outer[0])
        return (None, None, *(grad if factor == 1 else grad * factor for grad in grads))
