"""The weighting problem, checked and scaled: minimise w'Mw with Σw = 1 and w ≥ lower."""

from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from icpe.errors import ConfigError, DataError
from icpe.types import FloatArray

Array = TypeVar("Array", NDArray[Any], Tensor)
Bounds = float | NDArray[Any] | Tensor | None

_ROUNDING = 1e-6  # of the trace, or of 1 for bounds: what single precision may be off


@dataclass(frozen=True)
class Problem:
    """A Gram matrix of trace 1 (or 0) and bounds that leave ``slack`` = 1 − Σ lower to give away."""

    gram: FloatArray
    lower: FloatArray
    slack: float
    precision: float  # relative, of the type the matrix was given in


def to_numpy(given: float | NDArray[Any] | Tensor) -> FloatArray:
    """The values of an array or tensor in float64."""
    if isinstance(given, Tensor):
        return np.asarray(given.detach().to("cpu", torch.float64).numpy())
    return np.asarray(given, dtype=np.float64)


def return_as(values: FloatArray, given: Array) -> Array:
    """The same values as a tensor beside ``given`` if that is a tensor, else as they are."""
    if isinstance(given, Tensor):
        return torch.from_numpy(values).to(given.device)
    return values


def read_problem(gram: NDArray[Any] | Tensor, lower: Bounds) -> Problem:
    """The problem in float64 and scaled.

    Raises:
        DataError: the matrix is not the Gram matrix of anything.
        ConfigError: the bounds leave no weights.
    """
    matrix = _read_gram(to_numpy(gram))
    bounds = _read_lower(lower, len(matrix))
    return Problem(matrix, bounds, max(0.0, 1 - float(bounds.sum())), _precision(gram))


def _precision(given: NDArray[Any] | Tensor) -> float:
    if isinstance(given, Tensor):
        return torch.finfo(given.dtype).eps if given.dtype.is_floating_point else 0.0
    kind = np.asarray(given).dtype
    return float(np.finfo(kind).eps) if kind.kind == "f" else 0.0


def _read_gram(matrix: FloatArray) -> FloatArray:
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not len(matrix):
        raise DataError(
            f"gram has shape {list(matrix.shape)}; expected [K, K] with one row per cluster. "
            "gram_of(gradients) makes it from gradients [K, P]"
        )
    _check_finite(matrix)
    # By the largest number first, as the trace of numbers near the end of the range would overflow.
    matrix = _divide(matrix, float(np.abs(matrix).max()))
    matrix = _divide(matrix, float(matrix.trace()))
    worst = float(np.abs(matrix - matrix.T).max())
    if worst > _ROUNDING:
        raise DataError(f"gram differs from its transpose by {worst:.1g} of its trace; expected a symmetric matrix")
    return (matrix + matrix.T) / 2


def _divide(matrix: FloatArray, by: float) -> FloatArray:
    return matrix / by if by > 0 else matrix


def _check_finite(matrix: FloatArray) -> None:
    """One bad gradient spoils its whole row and column; the diagonal tells whose it is."""
    bad = np.flatnonzero(~np.isfinite(np.diagonal(matrix)))
    if not len(bad):
        bad = np.flatnonzero(~np.isfinite(matrix).all(axis=1))
    if len(bad):
        named = f"cluster {bad[0]}" if len(bad) == 1 else f"clusters {', '.join(map(str, bad))}"
        raise DataError(
            f"gram has values that are not finite at {named}; expected finite inner products. "
            "The gradient has diverged there: lower the learning rate, or compute the matrix in float64"
        )


def _read_lower(lower: Bounds, size: int) -> FloatArray:
    values = to_numpy(0.0 if lower is None else lower)
    if values.ndim > 1 or values.shape not in ((), (size,)):
        raise ConfigError(
            f"lower has shape {list(values.shape)}; expected one number or one for each of {size} clusters"
        )
    bounds = np.broadcast_to(values, size).copy()
    wrong = np.flatnonzero(~(bounds >= 0))
    if len(wrong):
        raise ConfigError(f"lower of cluster {wrong[0]} is {bounds[wrong[0]]}; expected 0 or more")
    total = float(bounds.sum())
    if total > 1 + _ROUNDING:
        raise ConfigError(
            f"lower adds up to {total:.6g} over {size} clusters; expected at most 1, the sum of the weights. "
            f"Bounds below 1/{size} = {1 / size:.4g} always fit"
        )
    return bounds / max(total, 1.0)
