"""The popularity of items on a logarithmic scale."""

import numpy as np
import torch
from torch import Tensor

from icpe.data.interactions import Interactions


def log_popularity(train: Interactions) -> Tensor:
    """Return log(n_i / mean n) with n_i the training count of an item, float32 [items].

    An item without training pairs counts as if it had one.
    """
    counts = np.maximum(train.item_counts, 1)
    return torch.from_numpy(np.log(counts / counts.mean()).astype(np.float32))
