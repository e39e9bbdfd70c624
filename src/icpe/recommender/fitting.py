"""Training a method on data, which gives a model."""

import copy
from typing import Any

import numpy as np

from icpe.data.interactions import Interactions
from icpe.errors import DataError
from icpe.metrics import evaluate_lists
from icpe.ranking import top_n
from icpe.ranking.tables import ScoreTable
from icpe.recommender.hidden import hidden_for
from icpe.recommender.model import Model
from icpe.split.parts import recode
from icpe.train import Trainer, TrainSettings
from icpe.train.loop import Validate
from icpe.train.method import TrainingMethod

DEPTH = 20  # length of the lists at validation


def fit(
    method: TrainingMethod, train: Interactions, valid: Interactions | None = None, seed: int = 0, **settings: Any
) -> Model:
    """Return the model that training a method gives. :meth:`icpe.methods.Method.fit` calls this function."""
    loop = TrainSettings.parse({**method.train_defaults(), **settings}, "fit")
    method = copy.deepcopy(method)  # the model keeps it, and a second fit must not change the first model
    trainer = Trainer(method, train, seed, loop, validator(train, valid))
    trainer.run()
    return Model(method.cpu(), train)


def validator(train: Interactions, valid: Interactions | None) -> Validate | None:
    """Return a function that evaluates scores on the validation part, or None without validation data.

    Raises:
        DataError: no validation pair has a user and an item of the training data.
    """
    if valid is None or len(valid) == 0:
        return None
    if not (valid.users.equals(train.users) and valid.items.equals(train.items)):
        valid = recode(valid, train)
        if len(valid) == 0:
            raise DataError("no validation pair has a user and an item of the training data")
    held = valid
    users = np.flatnonzero(held.user_counts).astype(np.int32)

    def validate(scores: ScoreTable) -> dict[str, float]:
        lists = top_n(scores, users, min(DEPTH, len(train.items)), hide=hidden_for("valid", train, held))
        return evaluate_lists(lists, held, train, n=[DEPTH]).values

    return validate
