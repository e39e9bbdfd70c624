"""Every table and figure of the paper, made again on any data."""

from collections.abc import Callable

from icpe.studies.reproduce.case import case
from icpe.studies.reproduce.comparison import accuracy, debiasing, tradeoff
from icpe.studies.reproduce.computed import frontier, gradients, theory
from icpe.studies.reproduce.finding import Claim, Finding
from icpe.studies.reproduce.setting import BACKBONES, METHODS, Setting
from icpe.studies.reproduce.variants import ablation, alpha, clusters, weights

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
