"""The popularity of items on a logarithmic scale, as a tensor."""

import torch
from torch import Tensor

from icpe.data import popularity
from icpe.data.interactions import Interactions


def log_popularity(train: Interactions) -> Tensor:
    """Return :func:`icpe.data.popularity.log_popularity` of the training counts, float32 [items]."""
    return torch.from_numpy(popularity.log_popularity(train.item_counts))
