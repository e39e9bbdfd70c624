"""Users and items of a batch taken once each, and sums over the batch that are found once for each user."""

import torch
from torch import Tensor


def distinct(codes: Tensor, number: int) -> tuple[Tensor, Tensor]:
    """The distinct codes below a number, in ascending order, and where each code is among them, int64 [...].

    Example:
        >>> [one.tolist() for one in distinct(torch.tensor([[7, 2], [2, 9]]), 10)]
        [[2, 7, 9], [[1, 0], [0, 2]]]
    """
    there = torch.zeros(number, dtype=torch.bool, device=codes.device)
    there[codes.reshape(-1)] = True
    return there.nonzero()[:, 0], (there.cumsum(0) - 1)[codes]


def of_the_others(terms: Tensor, user: Tensor, own: Tensor) -> Tensor:
    """What each row of a batch has of its user's sum when its own share is taken out, float64 [batch].

    Added up in float64, for what is taken out may be nearly all of it.

    Args:
        terms: what the batch adds up to for a user at an item, [users, items].
        user: places of the batch's users, int64 [batch].
        own: what is taken out, [batch].

    Example:
        >>> of_the_others(torch.tensor([[1.0, 2.0, 4.0]]), torch.tensor([0, 0]), torch.tensor([2.0, 4.0])).tolist()
        [5.0, 3.0]
    """
    return (terms.sum(1, dtype=torch.float64)[user] - own.double()).clamp_min(0)
