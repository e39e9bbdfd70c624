"""Min-norm weights: the shortest convex combination of gradients, computed exactly for few clusters."""

import numpy as np
import torch
from torch import Tensor

from icpe.arrays import Array, return_as
from icpe.errors import DataError
from icpe.pareto._problem import Bounds, Problem, read_problem
from icpe.pareto.frank_wolfe import frank_wolfe
from icpe.types import BoolArray, FloatArray

_EXACT = 16  # largest number of clusters for the exact active-set method
_RANK = 1e-12  # eigenvalues below this fraction of the trace count as 0
_RIDGES = (1e-8, 1e-10, 1e-12)  # tried in this order; smaller ones separate closer eigenvalues
_SLOPE = 1e-15  # differences of slopes below this are rounding errors
_CHUNK = 1 << 20  # gradient entries per cluster that are converted to float64 at a time


def gram_of(gradients: Array) -> Array:
    """Inner products M of the rows of ``gradients``, float64 [K, K].

    Sums are in float64 for all types, because squares of small single-precision gradients would underflow.

    Args:
        gradients: [K, P], one flattened gradient per cluster, array or tensor.

    Raises:
        DataError: the shape is not [K, P].

    Example:
        >>> gram_of(np.array([[1.0, 2.0], [0.0, 3.0]])).tolist()
        [[5.0, 6.0], [6.0, 9.0]]
    """
    if gradients.ndim != 2 or 0 in gradients.shape:
        raise DataError(
            f"gradients has shape {list(gradients.shape)}; expected [K, P]. "
            "Flatten the gradient of each cluster and stack them, one row per cluster"
        )
    size, width = gradients.shape
    if isinstance(gradients, Tensor):
        total = torch.zeros(size, size, dtype=torch.float64, device=gradients.device)
        for start in range(0, width, _CHUNK):
            part = gradients[:, start : start + _CHUNK].detach().to(torch.float64)
            total += part @ part.T
        return total
    sums = np.zeros((size, size))
    for start in range(0, width, _CHUNK):
        piece = gradients[:, start : start + _CHUNK].astype(np.float64)
        sums += piece @ piece.T
    return sums


def min_norm_weights(gram: Array, lower: Bounds = None) -> Array:
    """Weights w, float64 [K], that minimise w'Mw = ‖Σ w_k G_k‖² with Σ w = 1 and w ≥ lower (paper, Eq. 9).

    With bounds of 0, the direction d = Σ w_k G_k decreases all losses at once: ⟨d, G_k⟩ ≥ ‖d‖² for every k. Up to 16
    clusters are solved exactly by an active-set method, more by ``frank_wolfe_weights``.

    For up to 16 clusters, w'Mw is at most 10⁻¹¹·trace(M) above the minimum. If several w reach it (because gradients
    are equal, collinear or zero), the result is the one with the smallest Σ w², that is, the most even one. Therefore
    it does not depend on the order of the clusters, and equal clusters with equal bounds get equal weights. Eigenvalues
    below 10⁻¹²·trace(M), or below the rounding error if M is in single precision, count as 0. The scale of M does not
    matter.

    A cluster whose gradient is 0 gets all the weight that the bounds leave, because that combination is the shortest.

    Args:
        gram: [K, K] inner products of the gradients, array or tensor; see ``gram_of``.
        lower: smallest weight of each cluster, one number or [K]; None means 0. If the bounds sum to 1, they are the
            result.

    Raises:
        ConfigError: ``lower`` is negative, sums to more than 1, or has the wrong shape.
        DataError: ``gram`` is not finite (the message names the cluster), not symmetric, or not a Gram matrix.

    Example:
        >>> gram = gram_of(np.array([[2.0, 0.0], [0.0, 1.0]]))
        >>> min_norm_weights(gram).round(9).tolist(), min_norm_weights(gram, lower=0.4).tolist()
        ([0.2, 0.8], [0.4, 0.6])
    """
    problem = read_problem(gram, lower)
    if len(problem.lower) > _EXACT:
        return return_as(frank_wolfe(problem, steps=1000, gap=1e-10), gram)
    if problem.slack <= 1e-15:
        return return_as(problem.lower, gram)
    return return_as(_solve(problem), gram)


def _solve(problem: Problem) -> FloatArray:
    """Most even of the minimisers.

    A ridge makes the problem strictly convex, so that the active-set method terminates and finds the most even
    minimiser. The small error of the ridge is then removed on the face that was found. If the result is not feasible or
    not optimal, an eigenvalue is too close to the ridge, and a smaller ridge is tried.
    """
    roots = _square_root(problem)
    gram = roots.T @ roots
    weights = problem.lower
    for ridge in _RIDGES:
        weights, free = _active_set(gram + ridge * np.eye(len(gram)), problem)
        refined = _refine(roots, problem, free)
        if _is_optimal(gram, problem.lower, refined, free):
            return refined
    return weights


def _square_root(problem: Problem) -> FloatArray:
    """R [K, K] with R'R = M. Its rows are scaled eigenvectors, and eigenvalues within the noise are set to 0."""
    values, vectors = np.linalg.eigh(problem.gram)
    noise = max(_RANK, 10 * problem.precision)
    if values[0] < -max(1e-6, 10 * noise):
        raise DataError(
            f"gram has an eigenvalue of {values[0]:.1g} of its trace; expected none below 0, as in a Gram matrix. "
            "Compute it with gram_of(gradients)"
        )
    kept = np.where(values > noise, values, 0.0)
    return np.asarray(np.sqrt(kept)[:, None] * vectors.T)


def _active_set(matrix: FloatArray, problem: Problem) -> tuple[FloatArray, BoolArray]:
    """Minimiser for a positive definite matrix, and mask of the weights above their bounds.

    A primal method: starting from equal weights, move towards the minimum on the current face. Bounds that are reached
    on the way become active; at the minimum, the bound with the most negative multiplier becomes inactive. The method
    terminates because no face is visited twice with the same value.
    """
    lower, size = problem.lower, len(problem.lower)
    weights, free = lower + problem.slack / size, np.ones(size, bool)
    for _ in range(20 * size):
        target = _minimum_on_face(matrix, lower, free)
        meets = free & (target < lower)
        if meets.any():
            shares = np.full(size, np.inf)
            shares[meets] = (weights - lower)[meets] / (weights - target)[meets]
            weights = np.maximum(weights + shares.min() * (target - weights), lower)
            free &= shares > shares.min() * (1 + 1e-12)
            weights[~free] = lower[~free]
            continue
        weights = target
        slopes = matrix @ weights
        hinders = np.where(free, np.inf, slopes - slopes[free].mean())
        if hinders.min() >= -_SLOPE:
            break
        free[hinders.argmin()] = True
    return weights, free


def _minimum_on_face(matrix: FloatArray, lower: FloatArray, free: BoolArray) -> FloatArray:
    """Minimum over the free weights, with the others at their bounds and sum 1."""
    size = int(free.sum())
    system = np.zeros((size + 1, size + 1))
    system[:size, :size] = matrix[np.ix_(free, free)]
    system[size, :size] = system[:size, size] = 1.0
    right = np.empty(size + 1)
    right[:size] = -matrix[np.ix_(free, ~free)] @ lower[~free]
    right[size] = 1 - lower[~free].sum()
    weights = lower.copy()
    weights[free] = np.linalg.solve(system, right)[:size]
    return weights


def _refine(roots: FloatArray, problem: Problem, free: BoolArray) -> FloatArray:
    """Minimum on a face, without ridge and bounds. Among several, the one with the smallest sum of squares."""
    weights, size = problem.lower.copy(), int(free.sum())
    weights[free] = (1 - weights[~free].sum()) / size
    # Steps that keep the sum. The even start is orthogonal to all of them, so the shortest step is the right one.
    steps = roots[:, free] - roots[:, free].mean(axis=1, keepdims=True)
    left, sizes, right = np.linalg.svd(steps, full_matrices=False)
    along = sizes**2 > max(_RANK, 10 * problem.precision)
    found = -right[along].T @ ((left.T @ (roots @ weights))[along] / sizes[along])
    weights[free] += found - found.mean()
    return weights


def _is_optimal(gram: FloatArray, lower: FloatArray, weights: FloatArray, free: BoolArray) -> bool:
    """Whether the weights are feasible and optimal up to rounding. Feasible weights are clipped to their bounds."""
    if (weights < lower - 1e-13).any():
        return False
    np.maximum(weights, lower, out=weights)
    slopes = gram @ weights
    return bool((slopes >= slopes[free].max() - 1e-12).all() and np.ptp(slopes[free]) <= 1e-12)
