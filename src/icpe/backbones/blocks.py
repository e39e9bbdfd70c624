"""Functions of pairs of rows, computed and differentiated by several threads."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from icpe.threads import blocks, run_parts

OfPairs = Callable[[Tensor, Tensor], Tensor]


def in_blocks(function: OfPairs, users: Tensor, items: Tensor, parameters: Sequence[Tensor]) -> Tensor:
    """Return ``function(users, items)``, which treats each row [n, ...] by itself, block by block if there are many.

    The gradients of the parameters are sums over all rows. Those of the blocks are added in their order, so that the
    result does not depend on the number of threads.

    Args:
        function: function of rows of users and of items that uses the parameters.
        users: [n, ...].
        items: [n, ...].
        parameters: what the function needs besides and what gets gradients.
    """
    if not (worth_dividing(users) and len(users) == len(items)):
        return function(users, items)
    result: Tensor = _InBlocks.apply(function, users, items, *parameters)  # type: ignore[no-untyped-call]
    return result


def worth_dividing(rows: Tensor) -> bool:
    """Return whether threads share functions of these rows that autograd differentiates."""
    return len(blocks(len(rows))) > 1 and torch.is_grad_enabled() and rows.device.type == "cpu"


class _InBlocks(torch.autograd.Function):
    """Every block has a graph of its own, which a thread builds in the forward and follows in the backward pass."""

    @staticmethod
    def forward(ctx: Any, function: OfPairs, users: Tensor, items: Tensor, *parameters: Tensor) -> Tensor:
        def compute(first: int, last: int) -> tuple[Tensor, Tensor, Tensor]:
            with torch.enable_grad():  # it is a state of each thread
                user, item = (one[first:last].detach().requires_grad_() for one in (users, items))
                return user, item, function(user, item)

        ctx.parameters, ctx.parts = parameters, run_parts(compute, blocks(len(users)))
        return torch.cat([value.detach() for _, _, value in ctx.parts])

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        parts, ctx.parts = ctx.parts, None

        def differentiate(user: Tensor, item: Tensor, value: Tensor, gradient: Tensor) -> Sequence[Tensor | None]:
            return torch.autograd.grad(value, [user, item, *ctx.parameters], gradient, allow_unused=True)

        pieces = torch.split(gradients[0], [len(value) for _, _, value in parts])
        found = run_parts(differentiate, [(*part, piece) for part, piece in zip(parts, pieces, strict=True)])
        of_users, of_items, *of_parameters = zip(*found, strict=True)
        return None, torch.cat(of_users), torch.cat(of_items), *map(_sum, of_parameters)


def _sum(parts: Sequence[Tensor | None]) -> Tensor | None:
    known = [one for one in parts if one is not None]
    return sum(known[1:], start=known[0]) if known else None
