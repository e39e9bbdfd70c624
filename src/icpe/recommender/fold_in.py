"""Representations of users who were not in the training data."""

import numpy as np
import torch

from icpe.data.interactions import Interactions
from icpe.train.abilities import item_bias, score_user, user_loss
from icpe.train.method import TrainingMethod
from icpe.types import FloatArray, IntArray

_STEPS = 200
_LR = 0.05
_PULL = 1e-3  # pull towards the average user, so that one item does not decide everything


class NewUsers:
    def __init__(self, method: TrainingMethod, log: Interactions) -> None:
        self._method = method

    def scores(self, history: IntArray) -> FloatArray:
        return fold_in_user(self._method, history)


def fold_in_user(method: TrainingMethod, history: IntArray) -> FloatArray:
    """Return the scores of all items for a new user with this history, float32 [items].

    The representation starts at the mean of all users and minimises the method's own loss of the history against all
    other items, while everything else is fixed. All items take the place of sampled negatives, so nothing is random.
    """
    with torch.no_grad():
        users, items = (one.detach() for one in method.backbone.reps())
    centre = users.mean(0)
    seen = torch.zeros(len(items), dtype=torch.bool)
    seen[torch.from_numpy(history.astype(np.int64))] = True
    new = centre.clone().requires_grad_()
    optimizer = torch.optim.Adam([new], lr=_LR * float(users.std()) / 0.1)
    for _ in range(_STEPS):
        scores = score_user(method, new, items)
        loss = user_loss(method, scores[seen], scores[~seen]) + _PULL * (new - centre).square().sum()
        (new.grad,) = torch.autograd.grad(loss, new)  # not backward(), which would also fill the model's gradients
        optimizer.step()
    with torch.no_grad():
        scores, bias = score_user(method, new, items), item_bias(method)
        found: FloatArray = (scores if bias is None else scores + bias).float().numpy()
        return found
