"""The trained model: recommend, find similar items, fold in new users, evaluate and save."""

from icpe.recommender.evaluation import evaluate, evaluate_part
from icpe.recommender.fitting import fit
from icpe.recommender.model import Model

__all__ = ["Model", "evaluate", "evaluate_part", "fit"]
