"""Metrics of recommendation lists: accuracy for all, head and niche items, exposure, and statistics.

:func:`evaluate_lists` evaluates lists from any source; :func:`evaluate` ranks a table of scores first. Each metric is a
function: :mod:`icpe.metrics.accuracy` returns a value per list, :mod:`icpe.metrics.balanced` does so with weights that
judge all items alike, :mod:`icpe.metrics.exposure` describes what is shown, and :mod:`icpe.metrics.fronts` summarises
the results of many settings.
"""

from icpe.metrics.evaluation import Evaluation, evaluate, evaluate_lists

__all__ = ["Evaluation", "evaluate", "evaluate_lists"]
