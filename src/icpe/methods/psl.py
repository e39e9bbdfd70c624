"""PSL: a softmax in which an activation that grows more slowly replaces the exponential function."""

import math
from collections.abc import Callable
from functools import partial
from typing import ClassVar, Literal, Self

import torch
import torch.nn.functional as F
from torch import Tensor

from icpe.backbones.base import Backbone
from icpe.errors import ConfigError
from icpe.methods._parts.score_loss import OfScores, ScoreLoss, ScoreLossSettings, log_of_sum, loss_on_scores
from icpe.settings import setting
from icpe.train.batch import Batch

Activation = Literal["tanh", "atan", "relu", "exp"]
_LEAST = 1e-6  # smallest value of the activation relu, whose logarithm is taken


class PSLSettings(ScoreLossSettings):
    """Settings of :class:`PSL`."""

    temperature: float = setting(
        0.2,
        "Temperature τ in the unit of the softmax; the paper's is half of it.",
        above=0.0,
        search=(0.1, 0.15, 0.2, 0.25, 0.3),
    )
    activation: Activation = setting(
        "tanh",
        "Activation: 1 + tanh d (tanh), 1 + arctan d (atan), max(1 + d, 0) (relu), or that of the softmax, e^d (exp).",
    )

    def completed(self, backbone: Backbone) -> Self:
        """Return the settings with the number of negatives filled in.

        Raises:
            ConfigError: the activation is not defined for the scores of the backbone.
        """
        if self.activation in ("atan", "relu") and not backbone.inner_product:
            raise ConfigError(
                f"activation is {self.activation!r}, which needs cosines, because it is not positive for all numbers; "
                f"{backbone.label} has none. Use activation='tanh', or a backbone with inner products (mf, lightgcn)"
            )
        return super().completed(backbone)


class PSL(ScoreLoss):
    """Pairwise softmax loss (Yang et al. 2024), on half the cosines.

    With d_uij = (cos θ_uj − cos θ_ui)/2, between −1 and 1, and an activation σ, training minimises

        mean of log(1 + Σ_j σ(d_uij)^(2/τ))

    over negatives j that the batch shares. With σ = exp this is the softmax of cosine / τ. All activations agree with
    exp near d = 0; the others grow more slowly, so that a few negatives with high scores weigh less.

    Example:
        >>> from icpe.backbones import MF
        >>> PSL(MF()).settings.activation
        'tanh'
    """

    name: ClassVar[str] = "psl"
    Settings = PSLSettings
    settings: PSLSettings

    def of_scores(self, batch: Batch) -> OfScores:
        """Return the loss of scores."""
        return self._of_scores

    def user_loss(self, positive: Tensor, negative: Tensor) -> Tensor:
        """Return the training loss with all other items as negatives."""
        return loss_on_scores(positive, negative.expand(len(positive), -1), self._of_scores)

    @property
    def _of_scores(self) -> OfScores:
        return partial(pairwise_softmax, temperature=self.temperature, activation=self.settings.activation)


def pairwise_softmax(
    positive: Tensor, negative: Tensor, temperature: float, activation: Activation
) -> tuple[float, Tensor, Tensor]:
    """Return the loss of scores [b] and [b, m], and its gradients with respect to both. ``negative`` is overwritten."""
    gap = negative.sub_(positive[:, None]).div_(2)
    logarithm, slope = _ACTIVATIONS[activation](gap)
    others, chance = log_of_sum(logarithm.mul_(2 / temperature))
    total = F.softplus(others)
    share = (others - total).exp() / (temperature * len(positive))
    to_negative = chance.mul_(slope).mul_(share[:, None])
    return float(total.mean()), -to_negative.sum(1), to_negative


def _tanh(gap: Tensor) -> tuple[Tensor, Tensor]:
    # 1 + tanh d is twice the logistic function of 2d, whose logarithm is finite for all numbers.
    return F.logsigmoid(2 * gap).add_(math.log(2)), 1 - torch.tanh(gap)


def _atan(gap: Tensor) -> tuple[Tensor, Tensor]:
    angle = torch.atan(gap)
    return torch.log1p(angle), 1 / ((1 + angle) * (1 + gap.square()))


def _relu(gap: Tensor) -> tuple[Tensor, Tensor]:
    value = gap + 1
    return value.clamp_min(_LEAST).log_(), torch.where(value > _LEAST, 1 / value, 0.0)


def _exp(gap: Tensor) -> tuple[Tensor, Tensor]:
    return gap.clone(), torch.ones_like(gap)


# The logarithm of each activation, and its derivative.
_ACTIVATIONS: dict[Activation, Callable[[Tensor], tuple[Tensor, Tensor]]] = {
    "tanh": _tanh,
    "atan": _atan,
    "relu": _relu,
    "exp": _exp,
}
