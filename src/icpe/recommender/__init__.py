"""The model as a thing: train it, ask it, keep it."""

from icpe.recommender.evaluation import evaluate, evaluate_part
from icpe.recommender.fitting import fit
from icpe.recommender.model import Model

__all__ = ["Model", "evaluate", "evaluate_part", "fit"]
