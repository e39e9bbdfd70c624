"""From a method and training data to a model."""

import copy
from typing import Any

import numpy as np

from icpe.data.interactions import Interactions
from icpe.errors import DataError
from icpe.metrics import evaluate_lists
from icpe.ranking import top_n
from icpe.ranking.tables import ScoreTable
from icpe.recommender.model import Model
from icpe.split.parts import recode
from icpe.train import Trainer, TrainSettings
from icpe.train.loop import Validate
from icpe.train.method import Method, make_from_settings

DEPTH = 20  # of the lists that validation looks at


def fit(method: Method, train: Interactions, valid: Interactions | None = None, rng: int = 0, **settings: Any) -> Model:
    """Train a method; :meth:`icpe.methods.Method.fit` leads here."""
    made: TrainSettings = make_from_settings(TrainSettings, {**method.train_defaults(), **settings}, "fit")
    method = copy.deepcopy(method)  # the model keeps it: a second fit must not change the first one's model
    trainer = Trainer(method, train, rng, made, validator(train, valid))
    trainer.run()
    return Model(method.cpu(), train)


def validator(train: Interactions, valid: Interactions | None) -> Validate | None:
    """A function that measures scores on the validation part, training items hidden; None without validation data."""
    if valid is None or len(valid) == 0:
        return None
    if not (valid.users.equals(train.users) and valid.items.equals(train.items)):
        valid = recode(valid, train)
        if len(valid) == 0:
            raise DataError("no validation pair has a user and an item of the training data")
    held = valid
    users = np.flatnonzero(held.user_counts).astype(np.int32)

    def validate(scores: ScoreTable) -> dict[str, float]:
        lists = top_n(scores, users, min(DEPTH, len(train.items)), hide=[train])
        return evaluate_lists(lists, held, train, n=[DEPTH]).values

    return validate
