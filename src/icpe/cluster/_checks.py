"""Checks of arguments."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from icpe.arrays import as_float64
from icpe.errors import ConfigError, DataError
from icpe.rng import stream
from icpe.types import FloatArray


def check_finite(given: NDArray[Any] | Tensor, name: str, axes: str) -> FloatArray:
    """The values as float64, after a check of their axes, such as ``"items, F"``, and that all are finite.

    Raises:
        DataError: wrong shape, no items, or a value that is not finite.
    """
    values = as_float64(given)
    if values.ndim != axes.count(",") + 1:
        raise DataError(f"{name} has shape {list(values.shape)}; expected [{axes}]")
    if len(values) == 0:
        raise DataError(f"{name} has no items; expected at least one")
    wrong = np.argwhere(~np.isfinite(values))
    if len(wrong):
        value = values[tuple(wrong[0])]
        raise DataError(
            f"{name} of item {wrong[0][0]} is {value}; expected finite values. "
            "If they come from a model, its training has diverged: lower the learning rate"
        )
    return values


def check_length(values: FloatArray, name: str, items: int) -> None:
    """Raise ``DataError`` unless the number of values equals the number of items."""
    if len(values) != items:
        raise DataError(f"{name} has {len(values)} values for {items} items; expected one per item, in the same order")


def check_clusters(clusters: int) -> int:
    """The number of clusters as an int. Raises ``ConfigError`` if it is not at least 1."""
    if not isinstance(clusters, int | np.integer) or isinstance(clusters, bool) or clusters < 1:
        raise ConfigError(f"clusters is {clusters!r}; expected an integer of at least 1. 1 means no clustering")
    return int(clusters)


def to_generator(rng: int | np.random.Generator) -> np.random.Generator:
    """The generator itself, or a new one from a seed."""
    return rng if isinstance(rng, np.random.Generator) else stream(rng, "clusters")
