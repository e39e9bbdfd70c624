"""Every interaction with the same chance: the split that rewards popularity."""

import numpy as np

from icpe.data.interactions import Interactions
from icpe.rng import random_keys
from icpe.split.parts import TEST, VALID, Parts, assemble, check_shares


def random(log: Interactions, seed: int = 0, train: float = 0.8, valid: float = 0.1) -> Parts:
    """Split at random. Test data follow the log's popularity, so this flatters a model that shows everyone the hits."""
    check_shares(train, valid)
    order = np.argsort(random_keys(seed, "split/random", len(log)), kind="stable")
    part = np.zeros(len(log), np.int8)
    first_valid, first_test = round(train * len(log)), round((train + valid) * len(log))
    part[order[first_valid:first_test]] = VALID
    part[order[first_test:]] = TEST
    recipe = {"split": "random", "seed": int(seed), "train": train, "valid": valid}
    return assemble(log, part, recipe)
