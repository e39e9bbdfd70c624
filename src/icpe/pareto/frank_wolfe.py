"""Min-norm weights by Frank-Wolfe with away steps: for many clusters, and to check the exact answer."""

import numpy as np

from icpe.errors import ConfigError
from icpe.pareto._problem import Array, Bounds, Problem, read_problem, return_as
from icpe.types import FloatArray


def frank_wolfe_weights(gram: Array, lower: Bounds = None, steps: int = 1000, gap: float = 1e-10) -> Array:
    """Weights w, float64 [K], that minimise w'Mw with Σ w = 1 and w ≥ lower to a duality gap of ``gap``·trace(M).

    With w = lower + (1 − Σ lower)·v and v on the simplex, each step goes towards the best corner of the simplex or
    away from the worst corner in use, as far as an exact line search says. The gap bounds how far w'Mw is above the
    minimum; it shrinks by a constant factor per step, slowly where M is badly conditioned, so after ``steps`` it may
    still be larger. Where the minimiser is not unique, which one comes out depends on the order of the clusters.

    Args:
        gram: [K, K] inner products of the gradients, array or tensor.
        lower: least weight of each cluster, one number or [K]; None is 0.
        steps: at most so many.
        gap: part of the trace.

    Raises:
        ConfigError: ``lower`` is negative or adds up to more than 1; ``steps`` or ``gap`` is negative.
        DataError: ``gram`` is not finite (the message names the cluster) or not symmetric.

    Example:
        >>> frank_wolfe_weights(np.array([[4.0, 0.0], [0.0, 1.0]])).round(6).tolist()
        [0.2, 0.8]
    """
    if steps < 0 or not gap >= 0:
        raise ConfigError(f"steps is {steps} and gap is {gap}; expected 0 or more for both")
    return return_as(frank_wolfe(read_problem(gram, lower), steps, gap), gram)


def frank_wolfe(problem: Problem, steps: int, gap: float) -> FloatArray:
    """``frank_wolfe_weights`` of a checked problem."""
    gram, lower, slack = problem.gram, problem.lower, problem.slack
    share = np.full(len(lower), 1 / len(lower))
    # Half the gradient of w'Mw along the weights, kept up to date from step to step.
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
            share[worst] = 0.0  # a corner left for good must not stay in use by rounding
        share /= share.sum()
        # Now and then anew, before rounding adds up.
        slopes = slopes + slack * length * turn if step % 50 else gram @ (lower + slack * share)
    return lower + slack * share
