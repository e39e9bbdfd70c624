"""Choice among several weightings: the least misery over runs with random bounds."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from icpe.arrays import Array, as_float64, return_as
from icpe.errors import ConfigError, DataError
from icpe.pareto._problem import read_problem
from icpe.pareto.weights import min_norm_weights
from icpe.rng import stream


def least_misery(weights: NDArray[Any] | Tensor, norms: NDArray[Any] | Tensor) -> int:
    """Index of the run t with the smallest max_k w_k·‖G_k‖, so that no cluster dominates the step.

    Ties are broken by the first run.

    Args:
        weights: [T, K], one row per run.
        norms: [K], norm of each cluster's gradient: the square roots of the diagonal of the Gram matrix.

    Raises:
        DataError: the shapes do not match, or a value is not finite.

    Example:
        >>> least_misery(np.array([[0.5, 0.5], [0.3, 0.7]]), norms=np.array([4.0, 1.0]))
        1
    """
    rows, lengths = as_float64(weights), as_float64(norms)
    if rows.ndim != 2 or not rows.size or lengths.shape != rows.shape[1:]:
        raise DataError(
            f"weights has shape {list(rows.shape)} and norms {list(lengths.shape)}; expected [T, K] and [K]. "
            "For a single run, pass weights[None]"
        )
    misery = np.max(rows * lengths, axis=1)
    if not np.isfinite(misery).all():
        raise DataError(f"misery of run {int(np.isfinite(misery).argmin())} is not finite; check weights and norms")
    return int(misery.argmin())


def pareto_weights(
    gram: Array, rng: int | np.random.Generator, low: float = 0.8, high: float = 1.0, runs: int = 10
) -> Array:
    """Weights with the least misery over several runs of ``min_norm_weights``, float64 [K].

    The problem is convex, so runs differ only in their bounds (I6): each run samples lower_k uniformly from
    [low, high] / K. If ``low`` equals ``high``, all runs are identical and only one is computed.

    Args:
        gram: [K, K] inner products of the gradients, array or tensor.
        rng: seed or generator.
        low: smallest bound, as a fraction of the equal weight 1/K.
        high: largest bound, as a fraction of the equal weight 1/K.
        runs: number of runs, at least 1.

    Raises:
        ConfigError: not 0 ≤ low ≤ high ≤ 1, or ``runs`` is not an integer of at least 1.
        DataError: as in ``min_norm_weights``.

    Example:
        >>> gram = np.array([[4.0, 0.0], [0.0, 1.0]])
        >>> pareto_weights(gram, rng=0, low=0.9, high=0.9).round(6).tolist()
        [0.45, 0.55]
    """
    if not 0 <= low <= high <= 1:
        raise ConfigError(f"low is {low} and high is {high}; expected 0 ≤ low ≤ high ≤ 1, fractions of the weight 1/K")
    if not isinstance(runs, int | np.integer) or isinstance(runs, bool) or runs < 1:
        raise ConfigError(f"runs is {runs!r}; expected an integer of at least 1")
    matrix = read_problem(gram, None).gram
    if low == high:
        return min_norm_weights(gram, low / len(matrix))
    generator = rng if isinstance(rng, np.random.Generator) else stream(rng, "bounds")
    bounds = generator.uniform(low, high, (int(runs), len(matrix))) / len(matrix)
    numbers = as_float64(gram)
    weights = np.stack([min_norm_weights(numbers, lower) for lower in bounds])
    return return_as(weights[least_misery(weights, np.sqrt(np.diagonal(matrix).clip(0)))], gram)
