"""Min-norm weights by Frank-Wolfe with away steps, for many clusters and to check the exact solution."""

import numpy as np

from icpe.arrays import Array, return_as
from icpe.errors import ConfigError
from icpe.pareto._problem import Bounds, Problem, read_problem
from icpe.types import FloatArray


def frank_wolfe_weights(gram: Array, lower: Bounds = None, steps: int = 1000, gap: float = 1e-10) -> Array:
    """Weights w, float64 [K], that minimise w'Mw with Σ w = 1 and w ≥ lower to a duality gap of ``gap``·trace(M).

    With w = lower + (1 − Σ lower)·v and v on the simplex, each step moves towards the best vertex of the simplex or
    away from the worst vertex in use, with an exact line search. The gap is an upper bound on the distance of w'Mw from
    the minimum. It shrinks by a constant factor per step, slowly if M is badly conditioned, so it can still be larger
    after ``steps``. If the minimiser is not unique, the result depends on the order of the clusters.

    Args:
        gram: [K, K] inner products of the gradients, array or tensor.
        lower: smallest weight of each cluster, one number or [K]; None means 0.
        steps: largest number of steps.
        gap: duality gap at which to stop, relative to the trace.

    Raises:
        ConfigError: ``lower`` is negative or sums to more than 1; ``steps`` or ``gap`` is negative.
        DataError: ``gram`` is not finite (the message names the cluster) or not symmetric.

    Example:
        >>> frank_wolfe_weights(np.array([[4.0, 0.0], [0.0, 1.0]])).round(6).tolist()
        [0.2, 0.8]
    """
    if steps < 0 or not gap >= 0:
        raise ConfigError(f"steps is {steps} and gap is {gap}; expected 0 or more for both")
    return return_as(frank_wolfe(read_problem(gram, lower), steps, gap), gram)


def frank_wolfe(problem: Problem, steps: int, gap: float) -> FloatArray:
    """Weights of a checked problem, see ``frank_wolfe_weights``."""
    gram, lower, slack = problem.gram, problem.lower, problem.slack
    share = np.full(len(lower), 1 / len(lower))
    # Half the gradient of w'Mw with respect to the weights, updated in each step.
    slopes = gram @ (lower + slack * share)
    for step in range(1, steps + 1):
        best, worst = int(slopes.argmin()), int(np.where(share > 0, slopes, -np.inf).argmax())
        level = float(share @ slopes)
        if 2 * slack * (level - slopes[best]) <= gap:
            break
        if level - slopes[best] >= slopes[worst] - level:
            direction, longest = -share, 1.0
            direction[best] += 1
        else:
            direction, longest = share.copy(), share[worst] / (1 - share[worst])
            direction[worst] -= 1
        turn = gram @ direction
        bend = slack * float(direction @ turn)
        length = min(longest, -float(direction @ slopes) / bend) if bend > 0 else longest
        share = np.maximum(share + length * direction, 0.0)
        if length == longest and direction[worst] < 0 < share[worst]:
            share[worst] = 0.0  # rounding must not keep a vertex in use that was dropped
        share /= share.sum()
        # Recompute it from time to time, before rounding errors accumulate.
        slopes = slopes + slack * length * turn if step % 50 else gram @ (lower + slack * share)
    return lower + slack * share
