"""Arrays in and out: NumPy or torch, checked once, computed in float64, returned as they came."""

from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from icpe.errors import ConfigError, DataError
from icpe.rng import stream
from icpe.types import FloatArray

Array = TypeVar("Array", NDArray[Any], Tensor)


def to_numpy(given: NDArray[Any] | Tensor, name: str, axes: str) -> FloatArray:
    """A finite float64 array with as many axes as ``axes`` names, say ``"items, F"``.

    Raises:
        DataError: other shape, no items, or a value that is not finite.
    """
    plain = given.detach().to("cpu", torch.float64).numpy() if isinstance(given, Tensor) else given
    values = np.asarray(plain, dtype=np.float64)
    if values.ndim != axes.count(",") + 1:
        raise DataError(f"{name} has shape {list(values.shape)}; expected [{axes}]")
    if len(values) == 0:
        raise DataError(f"{name} has no items; expected at least one")
    wrong = np.argwhere(~np.isfinite(values))
    if len(wrong):
        value = values[tuple(wrong[0])]
        raise DataError(
            f"{name} of item {wrong[0][0]} is {value}; expected finite values. "
            "If it comes from a model, its training has diverged: lower the learning rate"
        )
    return values


def return_as(values: NDArray[Any], given: Array) -> Array:
    """The same values as a tensor beside ``given`` if that is a tensor, else as they are."""
    if isinstance(given, Tensor):
        return torch.from_numpy(values).to(given.device)
    return values


def check_length(values: FloatArray, name: str, items: int) -> None:
    """Raise ``DataError`` unless there is one value per item."""
    if len(values) != items:
        raise DataError(f"{name} has {len(values)} values for {items} items; expected one per item, in the same order")


def check_clusters(clusters: int) -> int:
    """The number of clusters as int, or ``ConfigError`` if there cannot be so many."""
    if not isinstance(clusters, int | np.integer) or isinstance(clusters, bool) or clusters < 1:
        raise ConfigError(f"clusters is {clusters!r}; expected a whole number from 1 up. 1 means no clustering")
    return int(clusters)


def to_generator(rng: int | np.random.Generator) -> np.random.Generator:
    """The generator itself, or one from a seed."""
    return rng if isinstance(rng, np.random.Generator) else stream(rng, "clusters")
