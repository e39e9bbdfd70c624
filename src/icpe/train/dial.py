"""The dial: how much of an item direction ranking adds to the scores. It can be changed without training again.

A method with a direction of its own, such as the propensity of ICPE, has the ability
:class:`~icpe.train.abilities.OwnDirection`. All other methods use log popularity.
"""

import numpy as np
import torch

from icpe.data.interactions import Interactions
from icpe.data.popularity import log_popularity
from icpe.ranking.tables import to_numpy
from icpe.train.abilities import OwnDirection
from icpe.train.method import TrainingMethod
from icpe.types import FloatArray


def dial_direction(method: TrainingMethod, train: Interactions) -> FloatArray:
    """Return the numbers of which ranking adds a multiple to the scores, float32 [items].

    They are in the unit of ranking scores, so that a setting of 1 adds 1 in the unit of the training score for an item
    that is e times as popular as another one.
    """
    if isinstance(method, OwnDirection):
        with torch.no_grad():
            return to_numpy(method.dial_direction())
    return np.asarray(method.score_unit * log_popularity(train.item_counts), np.float32)
