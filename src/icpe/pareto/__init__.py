"""Weights of several losses, computed from the inner products of their gradients. All functions take plain arrays."""

from icpe.pareto.frank_wolfe import frank_wolfe_weights
from icpe.pareto.misery import least_misery, pareto_weights
from icpe.pareto.weights import gram_of, min_norm_weights

__all__ = ["frank_wolfe_weights", "gram_of", "least_misery", "min_norm_weights", "pareto_weights"]
