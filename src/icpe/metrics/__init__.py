"""How good lists are for all, head and niche items, and how evenly they show the catalogue.

:func:`evaluate_lists` judges lists from anywhere, :func:`evaluate` ranks first. Single metrics are functions that give
a value per list (:mod:`icpe.metrics.accuracy`) or look at what is shown (:mod:`icpe.metrics.exposure`).
"""

from icpe.metrics.evaluation import Evaluation, evaluate, evaluate_lists

__all__ = ["Evaluation", "evaluate", "evaluate_lists"]
