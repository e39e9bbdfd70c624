"""The random split: every interaction has the same chance to be held out."""

from typing import Any

import numpy as np

from icpe.data.interactions import Interactions
from icpe.rng import random_keys
from icpe.split.parts import Parts, assemble
from icpe.split.settings import RandomSettings, owner
from icpe.types import IntArray


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
    return assemble(log, random_labels(len(log), settings), random_recipe(settings))


def random_recipe(settings: RandomSettings) -> dict[str, Any]:
    """The kind of split and its settings, as in the manifest."""
    return {"split": "random", "seed": settings.seed, "train": settings.train, "valid": settings.valid}


def random_labels(pairs: int, settings: RandomSettings) -> IntArray:
    """Label of each pair, int8 [pairs]: 0 train, 1 valid, 2 test."""
    keys = random_keys(settings.seed, "split/random", pairs)
    places = [round(settings.train * pairs), round((settings.train + settings.valid) * pairs)]
    labels = np.zeros(pairs, np.int8)
    inside = [place for place in places if place < pairs]
    ordered = np.partition(keys, inside) if inside else keys
    for place in inside:  # a test pair is beyond both places, so it gets 2
        labels += keys >= ordered[place]
    return labels
