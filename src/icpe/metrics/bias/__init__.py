"""Bias of recommendation lists: what popular items get, and what that means for users who like rare ones.

:func:`measure_bias` computes everything in one pass, with bootstrap intervals over users. Each metric is a function of
its own: :mod:`~icpe.metrics.bias.attention` weights exposure by rank, :mod:`~icpe.metrics.bias.concentration` measures
how few items get it, :mod:`~icpe.metrics.bias.parity` compares head and niche items, and
:mod:`~icpe.metrics.bias.user_groups` and :mod:`~icpe.metrics.bias.calibration` take the view of the users.
"""

from icpe.metrics.bias.evaluation import evaluate_with_bias, per_list_values
from icpe.metrics.bias.measure import Bias, Interval, measure_bias
from icpe.metrics.bias.user_groups import UserGroups

__all__ = ["Bias", "Interval", "UserGroups", "evaluate_with_bias", "measure_bias", "per_list_values"]
