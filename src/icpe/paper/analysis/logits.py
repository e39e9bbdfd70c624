"""Scores S^n of pairs of users and items, before any popularity correction."""

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from icpe.methods._parts.sampled_loss import SampledLoss
from icpe.methods.icpe.method import ICPE
from icpe.recommender import Model
from icpe.train.method import TrainingMethod, evaluation_mode
from icpe.types import FloatArray, IntArray

_PAIRS = 1 << 16  # pairs in one pass


def method_of(trained: Model | TrainingMethod) -> TrainingMethod:
    """Method of a trained model, or the method itself."""
    return trained.method if isinstance(trained, Model) else trained


def own_logits(method: TrainingMethod, users: Tensor, items: Tensor) -> Tensor:
    """S^n of pairs of representations [pairs, D]: the logit of the backbone, or cosine / τ for methods with softmax."""
    if not isinstance(method, SampledLoss) or method.settings.loss != "softmax":
        return method.backbone.score(users, items)
    if not method.ranks_by_cosine:
        return method.backbone.score(users, items) / method.temperature
    return F.cosine_similarity(users, items, dim=-1) / method.temperature


def pair_logits(trained: Model | TrainingMethod, users: IntArray, items: IntArray, factual: bool = False) -> FloatArray:
    """S^n of pairs given by codes, float64 [pairs]. With ``factual`` it is ICPE's training score Ŷ."""
    method, found = method_of(trained), []
    with evaluation_mode(method), torch.no_grad():
        z_user, z_item = method.backbone.reps()
        for first in range(0, len(users), _PAIRS):
            user, item = (code_tensor(one[first : first + _PAIRS], z_user) for one in (users, items))
            logits = own_logits(method, z_user[user], z_item[item])
            if factual and isinstance(method, ICPE):
                logits = method.own_share * logits + method.offset(z_item[item], item)
            found.append(logits.cpu().double().numpy())
    return np.concatenate(found) if found else np.empty(0)


def code_tensor(codes: IntArray, like: Tensor) -> Tensor:
    """Codes as an int64 tensor on the device of another tensor."""
    return torch.from_numpy(codes.astype(np.int64)).to(like.device)
