"""How popular items are in training, as methods use it."""

import numpy as np
import torch
from torch import Tensor

from icpe.data.interactions import Interactions


def log_popularity(train: Interactions) -> Tensor:
    """log(n_i / mean n), float32 [items]; an item without training data counts as if it had one pair."""
    counts = np.maximum(train.item_counts, 1)
    return torch.from_numpy(np.log(counts / counts.mean()).astype(np.float32))
