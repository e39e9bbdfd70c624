"""Metrics of a model on the parts of a split."""

from collections.abc import Sequence

import numpy as np

from icpe.data.interactions import Interactions
from icpe.errors import DataError
from icpe.metrics import Evaluation, evaluate_lists
from icpe.model._model import Model
from icpe.rank import top_n
from icpe.split.parts import Parts


def evaluate(model: Model, parts: Parts, n: Sequence[int] = (20,), per_user: bool = False) -> Evaluation:
    """Accuracy and debiasing on the test part, overall and for head and niche items.

    Training and validation items are hidden, users without test items are not counted.

    Raises:
        DataError: the parts have other users or items than the model was trained on.
    """
    return evaluate_part(model, parts.test, parts.train, [parts.train, parts.valid], n, per_user)


def evaluate_part(
    model: Model,
    held: Interactions,
    train: Interactions,
    hide: Sequence[Interactions],
    n: Sequence[int] = (20,),
    per_user: bool = False,
) -> Evaluation:
    """:func:`evaluate` for any held-out part and any hidden ones."""
    if not (train.users.equals(model.log.users) and train.items.equals(model.log.items)):
        raise DataError(
            "these parts have other users or items than the model was trained on; evaluate on its own split"
        )
    users = np.flatnonzero(held.user_counts).astype(np.int32)
    lists = top_n(model.scores, users, min(max(n), len(train.items)), hide=hide)
    return evaluate_lists(lists, held, train, n=n, per_user=per_user)
