"""Every table and figure of the paper, made again on any data."""

from collections.abc import Callable

from icpe.paper.case import case
from icpe.paper.comparison import accuracy, debiasing, tradeoff
from icpe.paper.computed import frontier, gradients, theory
from icpe.paper.finding import Claim, Finding
from icpe.paper.setting import BACKBONES, METHODS, Setting
from icpe.paper.variants import ablation, alpha, clusters, weights

STUDIES: dict[str, Callable[[Setting], Finding]] = {
    "accuracy": accuracy,
    "debiasing": debiasing,
    "tradeoff": tradeoff,
    "ablation": ablation,
    "clusters": clusters,
    "alpha": alpha,
    "frontier": frontier,
    "weights": weights,
    "case": case,
    "gradients": gradients,
    "theory": theory,
}

__all__ = ["BACKBONES", "METHODS", "STUDIES", "Claim", "Finding", "Setting"]
