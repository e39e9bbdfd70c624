"""Distinct codes of a batch, and sums over a batch that are computed once per user."""

import torch
from torch import Tensor

_ROWS = 64  # rows of a matrix that are summed at a time


def distinct(codes: Tensor, number: int) -> tuple[Tensor, Tensor]:
    """Return the distinct codes in ascending order, and the position of each code among them, int64 [...].

    Args:
        codes: int64 [...], from 0 to ``number`` − 1.
        number: number of possible codes.

    Example:
        >>> [one.tolist() for one in distinct(torch.tensor([[7, 2], [2, 9]]), 10)]
        [[2, 7, 9], [[1, 0], [0, 2]]]
    """
    present = torch.zeros(number, dtype=torch.bool, device=codes.device)
    present[codes.reshape(-1)] = True
    return present.nonzero()[:, 0], (present.cumsum(0) - 1)[codes]


def first_places(codes: Tensor, number: int) -> Tensor:
    """Return the position at which each distinct code occurs first, in ascending order of the codes, int64 [n].

    Args:
        codes: int64 [batch], from 0 to ``number`` − 1.
        number: number of possible codes.

    Example:
        >>> first_places(torch.tensor([7, 2, 2, 9, 7]), 10).tolist()
        [1, 0, 3]
    """
    never = len(codes)
    places = torch.full((number,), never, dtype=torch.int64, device=codes.device)
    places.scatter_reduce_(0, codes, torch.arange(never, device=codes.device), "amin")
    return places[places < never]


def sum_without_own(terms: Tensor, user: Tensor, own: Tensor) -> Tensor:
    """Return, for each row of a batch, the sum of its user's terms minus the row's own term, float64 [batch].

    The sum is computed in float64, because the own term can be nearly all of it.

    Args:
        terms: one term per user and item, [users, items].
        user: position of each row's user, int64 [batch].
        own: each row's own term, [batch].

    Example:
        >>> sum_without_own(torch.tensor([[1.0, 2.0, 4.0]]), torch.tensor([0, 0]), torch.tensor([2.0, 4.0])).tolist()
        [5.0, 3.0]
    """
    # torch converts the whole matrix first, so a part at a time takes less memory and half the time.
    sums = torch.cat([part.sum(1, dtype=torch.float64) for part in torch.split(terms, _ROWS)])
    return (sums[user] - own.double()).clamp_min(0)
