"""Min-norm weights: the shortest combination of gradients, exactly for few clusters."""

import numpy as np
import torch
from torch import Tensor

from icpe.errors import DataError
from icpe.pareto._problem import Array, Bounds, Problem, read_problem, return_as
from icpe.pareto.frank_wolfe import frank_wolfe
from icpe.types import BoolArray, FloatArray

_EXACT = 16  # clusters up to which the active set is worked out
_RANK = 1e-12  # eigenvalues below this part of the trace count as 0
_RIDGES = (1e-8, 1e-10, 1e-12)  # from well told apart to just told apart
_SLOPE = 1e-15  # differences of slopes that are rounding
_CHUNK = 1 << 20  # gradient entries per cluster held in float64 at a time


def gram_of(gradients: Array) -> Array:
    """Inner products M of the rows of ``gradients``, float64 [K, K].

    Summed in float64 whatever the type: squares of small single-precision gradients would vanish.

    Args:
        gradients: [K, P], one flattened gradient per cluster, array or tensor.

    Raises:
        DataError: the shape is another.

    Example:
        >>> gram_of(np.array([[1.0, 2.0], [0.0, 3.0]])).tolist()
        [[5.0, 6.0], [6.0, 9.0]]
    """
    if gradients.ndim != 2 or 0 in gradients.shape:
        raise DataError(
            f"gradients has shape {list(gradients.shape)}; expected [K, P]. "
            "Flatten each cluster's gradient and stack them: one row per cluster"
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

    With bounds of 0 the direction d = Σ w_k G_k descends on all losses at once: ⟨d, G_k⟩ ≥ ‖d‖² for every k. Up to 16
    clusters the active set is worked out, beyond that ``frank_wolfe_weights`` answers.

    What holds for up to 16 clusters: w'Mw is at most 10⁻¹¹·trace(M) above the minimum. Where several w reach it
    (gradients equal, collinear or zero), the one with the smallest Σ w² comes out, the most even one; so the answer
    does not depend on the order of the clusters, and equal clusters with equal bounds get equal weights. Eigenvalues
    below 10⁻¹²·trace(M), or rounding if M is in single precision, count as 0 for that. The unit of M does not matter.

    A cluster whose gradient is 0 draws all the weight the bounds leave: that combination is the shortest.

    Args:
        gram: [K, K] inner products of the gradients, array or tensor; see ``gram_of``.
        lower: least weight of each cluster, one number or [K]; None is 0. If it adds up to 1 it is the answer.

    Raises:
        ConfigError: ``lower`` is negative, adds up to more than 1, or has another shape.
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
    """The most even of the minimisers.

    A ridge makes the problem strictly convex, so the active set method ends, and leads it to the even minimiser; then
    the ridge's own small error is removed on the face found. Where that leaves the feasible set or the optimum, two
    eigenvalues are too close to the ridge, and a smaller one follows.
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
    """R [K, K] with R'R = M: rows are eigenvectors, so noise around eigenvalues of 0 can be cut off."""
    values, vectors = np.linalg.eigh(problem.gram)
    noise = max(_RANK, 10 * problem.precision)
    if values[0] < -max(1e-6, 10 * noise):
        raise DataError(
            f"gram has an eigenvalue of {values[0]:.1g} of its trace; expected none below 0, as inner products have. "
            "Compute it with gram_of(gradients)"
        )
    kept = np.where(values > noise, values, 0.0)
    return np.asarray(np.sqrt(kept)[:, None] * vectors.T)


def _active_set(matrix: FloatArray, problem: Problem) -> tuple[FloatArray, BoolArray]:
    """The minimiser for a positive definite matrix, and which weights are above their bounds there.

    Primal: from the middle, walk to the minimum on the current face; bounds met on the way join the face, and at its
    minimum the bound that hinders most leaves it. Ends, as no face is met twice with the same value.
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
    """The minimum over the weights that are free, the others at their bounds, with sum 1."""
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
    """Of the minima on a face, without ridge and bounds, the one with the smallest sum of squares."""
    weights, size = problem.lower.copy(), int(free.sum())
    weights[free] = (1 - weights[~free].sum()) / size
    # Steps that keep the sum; the even start is at right angles to all of them, so the shortest step is wanted.
    steps = roots[:, free] - roots[:, free].mean(axis=1, keepdims=True)
    left, sizes, right = np.linalg.svd(steps, full_matrices=False)
    along = sizes**2 > max(_RANK, 10 * problem.precision)
    found = -right[along].T @ ((left.T @ (roots @ weights))[along] / sizes[along])
    weights[free] += found - found.mean()
    return weights


def _is_optimal(gram: FloatArray, lower: FloatArray, weights: FloatArray, free: BoolArray) -> bool:
    """Whether weights are feasible and no weight should move, both up to rounding; feasible ones are made exact."""
    if (weights < lower - 1e-13).any():
        return False
    np.maximum(weights, lower, out=weights)
    slopes = gram @ weights
    return bool((slopes >= slopes[free].max() - 1e-12).all() and np.ptp(slopes[free]) <= 1e-12)
