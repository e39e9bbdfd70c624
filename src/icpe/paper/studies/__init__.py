"""Studies of the paper: functions from a :class:`~icpe.paper.reproduction.Reproduction` to a finding."""

from collections.abc import Callable

from icpe.paper.finding import Finding
from icpe.paper.reproduction import Reproduction
from icpe.paper.studies.ablation import ablation
from icpe.paper.studies.case import case
from icpe.paper.studies.frontier import frontier
from icpe.paper.studies.gradients import gradients
from icpe.paper.studies.niche_weights import weights
from icpe.paper.studies.sweeps import alpha, clusters
from icpe.paper.studies.tables import accuracy, debiasing
from icpe.paper.studies.theory import theory
from icpe.paper.studies.tradeoff import tradeoff

# Studies by their name on the command line, in the order in which `icpe reproduce all` runs them.
STUDIES: dict[str, Callable[[Reproduction], Finding]] = {
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
