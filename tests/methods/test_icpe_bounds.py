"""The lower bounds of ICPE's weights are drawn for each step."""

import numpy as np
import torch

from icpe import ICPE, MF
from icpe.rng import stream
from icpe.testing import skewed_log


def weights_at(step, seed=0):
    """Weights after a refresh; with bce and clusters by popularity, nothing but the bounds depends on the step."""
    log = skewed_log(users=60, items=40, pairs=900)
    method = ICPE(MF(dim=4, init_std=0.3), loss="bce", features="popularity", bounds=(0.1, 1.0))
    method.build(log, stream(0, "start"))
    method.refresh(step, seed)
    return method.clusters.weights.clone()


def test_each_step_and_seed_has_its_own_bounds():
    """Where the bounds are low they do not bind, so that some of the weights may be equal, but never all."""
    first = weights_at(0)
    assert torch.equal(first, weights_at(0))
    assert np.ptp(first.numpy()) > 0
    assert any(not torch.equal(first, weights_at(step)) for step in range(1, 8))
    assert any(not torch.equal(first, weights_at(0, seed)) for seed in range(1, 8))
