"""The random split: every interaction has the same chance to be held out."""

import numpy as np

from icpe.data.interactions import Interactions
from icpe.rng import random_keys
from icpe.split.parts import TEST, VALID, Parts, assemble
from icpe.split.settings import RandomSettings, owner


def random(log: Interactions, seed: int = 0, train: float = 0.8, valid: float = 0.1) -> Parts:
    """Parts drawn at random.

    The test part is as skewed as the log, so this split favours models that recommend popular items to everyone.

    Args:
        log: the complete, filtered log.
        seed: of every random choice.
        train: share for training.
        valid: share for validation; the rest is test.

    Raises:
        ConfigError: a setting is wrong.
        DataError: a part would be empty.
    """
    settings = RandomSettings.parse({"seed": seed, "train": train, "valid": valid}, owner("random"))
    train, valid = settings.train, settings.valid
    order = np.argsort(random_keys(settings.seed, "split/random", len(log)), kind="stable")
    labels = np.zeros(len(log), np.int8)
    first_valid, first_test = round(train * len(log)), round((train + valid) * len(log))
    labels[order[first_valid:first_test]] = VALID
    labels[order[first_test:]] = TEST
    return assemble(log, labels, {"split": "random", "seed": settings.seed, "train": train, "valid": valid})
