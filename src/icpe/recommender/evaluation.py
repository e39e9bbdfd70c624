"""Metrics of a model on the parts of a split."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from icpe.errors import DataError
from icpe.metrics import Evaluation, evaluate_lists
from icpe.metrics.balanced import warn_if_few
from icpe.metrics.bias import evaluate_with_bias
from icpe.metrics.given import head_among, read_lists
from icpe.ranking import Lists
from icpe.recommender.front import SETTING, Front, Meter
from icpe.recommender.hidden import Part, hidden_for
from icpe.recommender.model import Model
from icpe.recommender.shared_ranking import evaluated
from icpe.split.parts import Parts
from icpe.train.dial import dial_direction, ranking_scores


def evaluate(model: Model | Any, parts: Parts, n: Sequence[int] = (20,), per_user: bool = False) -> Evaluation:
    """Evaluate accuracy and exposure on the test part, overall and for head and niche items.

    A model ranks all items for every user with test items, with training and validation items hidden. Lists of another
    recommender are evaluated as they are; users without a list or without test items are not counted. If the balanced
    metrics rest on too few pairs, a warning says so.

    Args:
        model: a trained model; or recommendations of any other library: a frame of polars, pandas or Arrow, or a file,
            with ``user_id, item_id`` and ``rank`` or ``score``, as :func:`icpe.metrics.given.read_lists` takes them.
        parts: parts of the split that the model was trained on.
        n: list lengths.
        per_user: whether to return the values of every user too.

    Raises:
        DataError: the users or items of the parts differ from those that the model was trained on, or no user of the
            lists has test items.
    """
    given = not isinstance(model, Model)
    found = _evaluate_given(model, parts, n, per_user) if given else evaluate_part(model, parts, "test", n, per_user)
    warn_if_few(found.values["balanced_pairs"], len(parts.test))
    return found


def _evaluate_given(recommendations: Any, parts: Parts, n: Sequence[int], per_user: bool) -> Evaluation:
    """Evaluate lists of another recommender. Items that are not in training count as niche items."""
    given = read_lists(recommendations, parts.train)
    train, test = (replace(part, items=given.items, item_info=None) for part in (parts.train, parts.test))
    lists = given.cut(max(n))
    known = lists.users < len(train.users)  # users who are not in training have no test items
    lists = Lists(lists.users[known], lists.items[known], lists.scores[known])
    return evaluate_lists(lists, test, train, n, per_user, head_among(parts.train, len(train.items)))


def front_on_test(model: Model, parts: Parts) -> Front:
    """Return accuracy and exposure on the test part at the settings of the model's front, and at the model's own.

    It is for reports. Settings are chosen on the validation part, which is what :meth:`Model.front` measures.
    """
    front = model.front()
    meter = Meter(parts.train, parts.test, front.n)
    with torch.no_grad():
        scores = ranking_scores(model.method, model.log)
    direction = dial_direction(model.method, model.log)
    settings = [*front[SETTING].tolist(), model.beta]
    return meter.front(scores, direction, settings, hidden_for("test", parts.train, parts.valid))


def evaluate_part(
    model: Model, parts: Parts, part: Part, n: Sequence[int] = (20,), per_user: bool = False, bias: bool = False
) -> Evaluation:
    """Evaluate a model on the validation or the test part, without a warning; see :func:`evaluate`.

    With ``bias``, the evaluation also has the metrics of an audit and intervals.
    """
    train, held = parts.train, parts.valid if part == "valid" else parts.test
    if not (train.users.equals(model.log.users) and train.items.equals(model.log.items)):
        raise DataError(
            "the users or items of these parts differ from those that the model was trained on; pass the parts of the "
            "split it was trained on"
        )
    users = np.flatnonzero(held.user_counts).astype(np.int32)
    measure = evaluate_with_bias if bias else evaluate_lists
    hide = hidden_for(part, train, parts.valid)
    return evaluated(
        model.scores, users, max(n), hide, lambda lists: measure(lists, held, train, n=n, per_user=per_user)
    )
