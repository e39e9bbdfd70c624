"""Functions that accept NumPy arrays or tensors, compute in float64, and return the kind they were given."""

from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from icpe.types import FloatArray

Array = TypeVar("Array", NDArray[Any], Tensor)


def as_float64(values: float | NDArray[Any] | Tensor) -> FloatArray:
    """Values of a number, an array or a tensor as a float64 array."""
    if isinstance(values, Tensor):
        return np.asarray(values.detach().to("cpu", torch.float64).numpy())
    return np.asarray(values, dtype=np.float64)


def return_as(values: NDArray[Any], like: Array) -> Array:
    """Values as a tensor on the device of ``like`` if that is a tensor, else unchanged."""
    if isinstance(like, Tensor):
        return torch.from_numpy(values).to(like.device)
    return values
