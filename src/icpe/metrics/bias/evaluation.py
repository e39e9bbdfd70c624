"""Accuracy, exposure and bias of lists together, as for models."""

from collections.abc import Sequence

import numpy as np

from icpe.data.interactions import Interactions
from icpe.data.popularity import head_mask
from icpe.metrics.bias.measure import Interval, measure_bias
from icpe.metrics.evaluation import Evaluation, evaluate_lists
from icpe.ranking import Lists
from icpe.types import FloatArray


def evaluate_with_bias(
    lists: Lists, test: Interactions, train: Interactions, n: Sequence[int] = (20,), per_user: bool = False
) -> Evaluation:
    """Return the metrics of :func:`evaluate_lists` and of :func:`measure_bias`, for all lengths in ``n``.

    Like all metrics of an evaluation, the bias metrics are over the users with a list and test items.
    """
    lists = _evaluated(lists, test)
    found = evaluate_lists(lists, test, train, n, per_user=True)
    columns, head = per_list_values(found, lists, test), head_mask(train.item_counts)
    values, intervals = {**found.values}, dict[str, Interval]()
    for length in n:
        cut = Lists(lists.users, lists.items[:, :length], lists.scores[:, :length])
        further = {name: column for name, column in columns.items() if name.endswith(f"@{length}")}
        bias = measure_bias(cut, train, head, test, further)
        values |= bias.values
        intervals |= bias.intervals
    return Evaluation(values, found.per_user if per_user else None, intervals)


def per_list_values(evaluation: Evaluation, lists: Lists, test: Interactions) -> dict[str, FloatArray]:
    """Return the metrics per user of an evaluation in the order of the lists, by name, each float64 [lists].

    They are NaN for users without test items, and where a user has no relevant item of the group.
    """
    if evaluation.per_user is None:
        return {}
    rows = np.flatnonzero(test.user_counts[lists.users])
    rows = rows[np.argsort(lists.users[rows], kind="stable")]  # evaluations are sorted by user
    found = {}
    for column in evaluation.per_user.iter_columns():
        if column.dtype.is_float():
            found[column.name] = np.full(len(lists), np.nan)
            found[column.name][rows] = column.to_numpy()
    return found


def _evaluated(lists: Lists, test: Interactions) -> Lists:
    """The lists of users with test items."""
    chosen = test.user_counts[lists.users] > 0
    return Lists(lists.users[chosen], lists.items[chosen], lists.scores[chosen])
