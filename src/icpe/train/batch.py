"""The user and item codes of one training step."""

from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from icpe.types import IntArray


@dataclass(frozen=True)
class Negatives:
    """How many negative items a method wants, and which.

    Attributes:
        count: number of negatives.
        shared: whether all positives of a batch share ``count`` negatives, sampled uniformly from all items. Otherwise
            each positive gets ``count`` negatives of its own.
        seen: whether the negatives of a positive are sampled from all items. Otherwise they are sampled from the items
            that its user has not used.
    """

    count: int
    shared: bool = False
    seen: bool = False


@dataclass(frozen=True)
class SampledBatch:
    """Codes of one step as NumPy arrays, all int64.

    Attributes:
        users: [batch].
        items: [batch], a positive item of each user.
        negatives: [batch, count], or [count] if shared.
        rows: [batch], positions of these pairs in the training data.
        labels: labels that a method with its own sampling adds, or None.
    """

    users: IntArray
    items: IntArray
    negatives: IntArray
    rows: IntArray
    labels: IntArray | None = None


@dataclass(frozen=True)
class Batch:
    """Codes of one step as tensors, for :meth:`TrainingMethod.loss`.

    Attributes:
        users: int64 [batch].
        items: int64 [batch], a positive item of each user.
        negatives: int64 [batch, count], or [count] if shared.
        labels: labels that a method with its own sampling has added, or None.
    """

    users: Tensor
    items: Tensor
    negatives: Tensor
    labels: Tensor | None = None

    @classmethod
    def of(cls, sampled: SampledBatch, device: torch.device | str = "cpu") -> Self:
        """Return the sampled codes as tensors on a device."""
        users, items, negatives = (
            torch.from_numpy(codes).to(device) for codes in (sampled.users, sampled.items, sampled.negatives)
        )
        labels = None if sampled.labels is None else torch.from_numpy(sampled.labels).to(device)
        return cls(users, items, negatives, labels)
