"""Training a method on data, which gives a model."""

import copy
import warnings
from typing import Any

from icpe.data.interactions import Interactions
from icpe.errors import ConfigError
from icpe.recommender.dial import Wish
from icpe.recommender.model import Model
from icpe.recommender.validation import Validator, validator
from icpe.recommender.warm_start import keep_choices, start_from
from icpe.train import Trainer, TrainSettings
from icpe.train.method import TrainingMethod


def fit(
    method: TrainingMethod,
    train: Interactions,
    valid: Interactions | None = None,
    seed: int = 0,
    init_from: Model | None = None,
    **settings: Any,
) -> Model:
    """Return the model that training a method gives. :meth:`icpe.methods.Method.fit` calls this function."""
    loop = TrainSettings.parse({**method.train_defaults(), **settings}, "fit")
    method = copy.deepcopy(method)  # the model keeps it, and a second fit must not change the first model
    found = validator(train, valid, loop)
    trainer = Trainer(method, train, seed, loop, found)
    if init_from is not None:
        start_from(trainer, train, init_from, valid)
        if found is None:
            keep_choices(trainer.method, init_from.method)
    trainer.run()
    return finished_model(trainer, train, found)


def finished_model(trainer: Trainer, train: Interactions, found: Validator | None, wish: Wish | None = None) -> Model:
    """Return the trained model with its front, and with the dial at the setting that meets a wish.

    Without a wish, it is that of the goal of training.
    """
    method, chosen = trainer.method.cpu(), trainer.position.best_beta
    if found is None:
        return Model(method, train)
    model = Model(method, train, found.front(method))
    if chosen is None and wish is None:
        return model
    try:
        return model.dial(found.meter.held, **(wish or found.wish).as_dict())
    except ConfigError as error:  # the wished niche share is out of reach; training came as close as it could
        warnings.warn(str(error), stacklevel=2)
        return model
