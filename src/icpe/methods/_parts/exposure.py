"""How likely items are to be exposed, and which sampled items a user has already used."""

from dataclasses import replace

import numpy as np

from icpe.train.batch import SampledBatch
from icpe.train.drawing import SeenPairs
from icpe.types import FloatArray, IntArray


def item_propensities(counts: IntArray, power: float) -> FloatArray:
    """Return the estimated exposure of items, (n_i / max n)^power, float64 [items].

    An item without training pairs counts as if it had one, so that no propensity is 0.

    Example:
        >>> item_propensities(np.array([0, 1, 4]), 0.5)
        array([0.5, 0.5, 1. ])
    """
    at_least_one = np.maximum(counts, 1).astype(np.float64)
    return np.asarray((at_least_one / at_least_one.max()) ** power)


def label_used(sampled: SampledBatch, seen: SeenPairs) -> SampledBatch:
    """Return the batch with labels, int64 [batch, K]: 1 where the user has used the sampled item, else 0."""
    return replace(sampled, labels=seen.contain(sampled.users[:, None], sampled.negatives).astype(np.int64))
