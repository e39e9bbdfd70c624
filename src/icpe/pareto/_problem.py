"""The weighting problem after checks and scaling: minimise w'Mw with Σw = 1 and w ≥ lower."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from icpe.arrays import as_float64
from icpe.errors import ConfigError, DataError
from icpe.types import FloatArray

Bounds = float | NDArray[Any] | Tensor | None

_ROUNDING = 1e-6  # tolerance for single precision, relative to the trace of the matrix or to a sum of bounds of 1


@dataclass(frozen=True)
class Problem:
    """A Gram matrix with trace 1 (or 0) and lower bounds of the weights.

    Attributes:
        gram: inner products of the gradients, [K, K].
        lower: smallest weight of each cluster, [K].
        slack: weight that remains to be distributed, 1 − Σ lower.
        precision: relative precision of the type in which the matrix was given.
    """

    gram: FloatArray
    lower: FloatArray
    slack: float
    precision: float


def read_problem(gram: NDArray[Any] | Tensor, lower: Bounds) -> Problem:
    """Checked problem in float64, scaled to trace 1.

    Raises:
        DataError: the matrix is not a Gram matrix.
        ConfigError: no weights satisfy the bounds.
    """
    matrix = _read_gram(as_float64(gram))
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
            "gram_of(gradients) computes it from gradients [K, P]"
        )
    _check_finite(matrix)
    # Divide by the largest number first, because the trace of very large numbers would overflow.
    matrix = _divide(matrix, float(np.abs(matrix).max()))
    matrix = _divide(matrix, float(matrix.trace()))
    worst = float(np.abs(matrix - matrix.T).max())
    if worst > _ROUNDING:
        raise DataError(f"gram differs from its transpose by {worst:.1g} of its trace; expected a symmetric matrix")
    return (matrix + matrix.T) / 2


def _divide(matrix: FloatArray, by: float) -> FloatArray:
    return matrix / by if by > 0 else matrix


def _check_finite(matrix: FloatArray) -> None:
    """Raise if a value is not finite. A bad gradient affects its row and column; the diagonal identifies it."""
    bad = np.flatnonzero(~np.isfinite(np.diagonal(matrix)))
    if not len(bad):
        bad = np.flatnonzero(~np.isfinite(matrix).all(axis=1))
    if len(bad):
        named = f"cluster {bad[0]}" if len(bad) == 1 else f"clusters {', '.join(map(str, bad))}"
        raise DataError(
            f"gram has values that are not finite at {named}; expected finite inner products. "
            "The gradient has diverged: lower the learning rate, or compute the matrix in float64"
        )


def _read_lower(lower: Bounds, size: int) -> FloatArray:
    values = as_float64(0.0 if lower is None else lower)
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
