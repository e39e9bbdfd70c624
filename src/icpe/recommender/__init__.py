"""The trained model: recommend, find similar items, fold in new users, evaluate and save.

The names below load on first use, because lists from saved vectors need no torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from icpe.recommender.evaluation import evaluate as evaluate
    from icpe.recommender.evaluation import evaluate_part as evaluate_part
    from icpe.recommender.fitting import fit as fit
    from icpe.recommender.model import Model as Model

_HOME = {"Model": "model", "evaluate": "evaluation", "evaluate_part": "evaluation", "fit": "fitting"}

__all__ = ["Model", "evaluate", "evaluate_part", "fit"]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"icpe.recommender.{_HOME[name]}"), name)
    raise AttributeError(f"module 'icpe.recommender' has no attribute {name!r}")
