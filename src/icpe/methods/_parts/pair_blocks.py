"""Losses of pairs that a backbone scores one by one. Several threads share a batch, block by block."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from icpe.methods._parts.precomputed_gradient import with_gradients
from icpe.methods._parts.softmax_blocks import add_in_order
from icpe.threads import blocks, run_parts

OfBlock = Callable[[Tensor, Tensor, Tensor], Tensor]
"""Function of the rows of users [n, D], of their positives [n, D] and of negatives, [n, K, D] or [m, D], that returns
the mean loss of these users."""


def loss_in_blocks(loss: OfBlock, users: Tensor, items: Tensor, shared: bool, parameters: Sequence[Tensor]) -> Tensor:
    """Return the loss of a batch, computed block by block, with gradients.

    A thread builds the graph of a block and follows it back at once. The gradients of the parameters, and of shared
    negatives, are added in the order of the blocks, so that the result does not depend on the number of threads.

    Args:
        loss: function of the rows of a block that uses the parameters.
        users: rows of the users, [b, D].
        items: rows of the positives and then of the negatives, [b + m, D].
        shared: whether the batch shares all negatives; otherwise each user in turn has m / b of them.
        parameters: what the function needs besides and what gets gradients.
    """
    size = len(users)
    count = len(items) // size - 1
    user_grads, item_grads = torch.empty_like(users), torch.empty_like(items)

    def of_block(first: int, last: int) -> tuple[float, Sequence[Tensor], Sequence[Tensor | None]]:
        mine, share = slice(first, last), (last - first) / size
        drawn = slice(size, None) if shared else slice(size + first * count, size + last * count)
        user, positive, negative = (one.detach().requires_grad_() for one in (users[mine], items[mine], items[drawn]))
        with torch.enable_grad():  # it is a state of each thread
            value = loss(user, positive, negative if shared else negative.view(last - first, count, -1))
        inputs = [user, positive, negative, *parameters]
        user_grads[mine], item_grads[mine], of_drawn, *more = torch.autograd.grad(
            value, inputs, value.new_tensor(share), allow_unused=True
        )
        if shared:
            return share * float(value.detach()), [of_drawn], more
        item_grads[drawn] = of_drawn
        return share * float(value.detach()), [], more

    values, of_shared, of_parameters = zip(*run_parts(of_block, blocks(size)), strict=True)
    if shared:
        item_grads[size:] = add_in_order([one for (one,) in of_shared])
    inputs, grads = [users, items], [user_grads, item_grads]
    for parameter, parts in zip(parameters, zip(*of_parameters, strict=True), strict=True):
        if parts[0] is not None:  # the loss uses it
            inputs.append(parameter)
            grads.append(add_in_order(parts))
    return with_gradients(sum(values), grads, inputs)
