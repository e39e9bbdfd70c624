"""The model as a thing: train it, ask it, keep it."""

from icpe.model._evaluate import evaluate, evaluate_part
from icpe.model._fit import fit
from icpe.model._model import Model
from icpe.model.store import load_model as load

__all__ = ["Model", "evaluate", "evaluate_part", "fit", "load"]
