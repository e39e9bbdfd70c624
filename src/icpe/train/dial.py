"""What ranking adds to the scores of items. It can be changed without training again.

The dial adds a multiple of an item direction. A method with a direction of its own, such as the propensity of ICPE, has
the ability :class:`~icpe.train.abilities.OwnDirection`; all other methods use log popularity. The boost adds one number
to the scores of all niche items.
"""

import numpy as np
import torch

from icpe.data.interactions import Interactions
from icpe.data.popularity import head_mask, log_popularity
from icpe.ranking.tables import ScoreTable, to_numpy, with_bias
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


def niche_direction(method: TrainingMethod, train: Interactions) -> FloatArray:
    """Return the numbers of which ranking adds ``boost`` times to the scores: one unit for niche items, float32."""
    return np.where(head_mask(train.item_counts), 0.0, method.score_unit).astype(np.float32)


def boosted(table: ScoreTable, method: TrainingMethod, train: Interactions) -> ScoreTable:
    """Return scores of a method with the boost of niche items that its settings name."""
    boost = method.settings.boost
    return with_bias(table, np.float32(boost) * niche_direction(method, train)) if boost else table


def ranking_scores(method: TrainingMethod, train: Interactions) -> ScoreTable:
    """Return the scores that rank items, with the boost and without the dial. Call it without gradients."""
    return boosted(method.scores(), method, train)
