"""Contrast of two views of the same things: each must find itself among all others."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from icpe.methods._parts.precomputed_gradient import with_gradients
from icpe.methods._parts.score_loss import log_of_sum


def noisy_view(units: Tensor, noise: float, rng: torch.Generator | None) -> Tensor:
    """Return unit vectors near the given ones, [n, D].

    A random vector of length ``noise`` with the signs of the unit vector is added, so that no view leaves its orthant.
    """
    drawn = torch.rand(units.shape, generator=rng, dtype=units.dtype, device=units.device)
    return F.normalize(units + noise * torch.sign(units.detach()) * F.normalize(drawn, dim=-1), dim=-1)


def contrast(
    one: Tensor, two: Tensor, weight: Tensor, temperature: float, border: int = 0, across: float = 1.0
) -> Tensor:
    """Return Σ_r weight_r · −log(e^(s_rr) / Σ_c w_rc·e^(s_rc)), s = cosine / temperature of two views of n things.

    w_rc is ``across`` where only one of r and c is below ``border``, and 1 elsewhere. The gradient has a closed form.

    Args:
        one: unit vectors of the first view, [n, D].
        two: unit vectors of the second view, [n, D].
        weight: weight of each thing, [n].
        temperature: temperature of the softmax.
        border: number of things in the first of two groups.
        across: weight of things of the other group in the sum, at least 0.
    """
    with torch.no_grad():
        logits = (one @ two.T).div_(temperature)
        if across != 1:
            added = math.log(across) if across else -math.inf
            logits[:border, border:] += added
            logits[border:, :border] += added
        total, chance = log_of_sum(logits)
        value = weight @ (total - logits.diagonal())
        gradient = chance.mul_(weight[:, None])
        gradient.diagonal().sub_(weight)
        gradient.div_(temperature)
    return with_gradients(value, [gradient @ two, gradient.T @ one], [one, two])
