"""Optional abilities of a method, one small mixin each.

A method that needs an ability lists its mixin first: ``class DICE(CustomSampling, Refresh, Method)``. The loop and the
trained model ask ``isinstance(method, Refresh)`` and never look at the class itself.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch.nn.functional as F
from torch import Tensor

from icpe.errors import ConfigError
from icpe.ranking.tables import ScoreTable, with_bias
from icpe.train.batch import SampledBatch
from icpe.train.method import TrainingMethod

if TYPE_CHECKING:
    import numpy as np


class Refresh(ABC):
    """A method that computes something from the current parameters and uses it for many steps, such as clusters.

    The results of :meth:`refresh` must be buffers, so that checkpoints contain them.
    """

    @abstractmethod
    def refresh_due(self, step: int, epoch_steps: int) -> bool:
        """Return whether :meth:`refresh` runs before this step, counted from 0."""

    @abstractmethod
    def refresh(self, step: int, seed: int) -> None:
        """Compute the results again from the current parameters.

        Args:
            step: number of the next step, from 0.
            seed: seed of the run; draw from ``icpe.rng.stream(seed, name)`` with a name that contains the step.
        """


class CustomSampling(ABC):
    """A method that changes what was sampled: it can replace negatives, add labels or replace the pairs."""

    @abstractmethod
    def sample(self, batch: SampledBatch, epoch: int, rng: "np.random.Generator") -> SampledBatch:
        """Return the codes that the step uses.

        Args:
            batch: the positives of the step, and the negatives that :attr:`TrainingMethod.negatives` requests.
            epoch: number of the epoch, counted from 0.
            rng: generator for this step only, so that a run can resume at any step.
        """


class RankingChoice(ABC):
    """A method that chooses a ranking setting at every validation, by the validation metric."""

    @abstractmethod
    def ranking_options(self) -> Sequence[dict[str, Any]]:
        """Return the settings to try, such as ``[{"strength": 0.0}, {"strength": 10.0}]``. The list may be empty."""

    @abstractmethod
    def choose_ranking(self, **settings: Any) -> None:
        """Rank by one of :meth:`ranking_options` from now on. The choice must be stored in a buffer."""

    def ranking_choice(self) -> dict[str, Any]:
        """Return the choice in effect, as :meth:`choose_ranking` takes it, for a model trained without validation.

        Raises:
            ConfigError: the method does not say what it has chosen.
        """
        raise ConfigError(
            f"{type(self).__name__} does not say which ranking it has chosen, so a refit cannot keep it; define "
            "ranking_choice() in the method"
        )


class OnPlateau(ABC):
    """A method that changes something whenever a validation brings no better value, such as a temperature.

    What it changes must be a buffer, so that checkpoints contain it and the best state comes back with its own value.
    """

    @abstractmethod
    def on_plateau(self) -> None:
        """Change the training of the next steps. The loop calls this after a validation without a better value."""


class ItemBias(ABC):
    """A method that ranks by a score plus one number per item, which is the same for all users."""

    @abstractmethod
    def item_bias(self) -> Tensor | None:
        """Return the numbers to add to the scores of the items, [items], or None to add nothing."""

    def unbiased_scores(self) -> ScoreTable:
        """Return the scores without :meth:`item_bias`."""
        return super().scores()  # type: ignore[misc, no-any-return]

    def scores(self) -> ScoreTable:
        """Return the scores that rank items, :meth:`item_bias` included."""
        table, bias = self.unbiased_scores(), self.item_bias()
        return table if bias is None else with_bias(table, bias.detach().float().cpu().numpy())


class OwnDirection(ABC):
    """A method with its own item direction for the dial; the others use log popularity."""

    @abstractmethod
    def dial_direction(self) -> Tensor:
        """Return the numbers of which ranking adds ``beta`` times to the scores of the items, [items]."""


class Diagnostics(ABC):
    """A method that writes internal values to ``metrics.jsonl`` at each validation."""

    @abstractmethod
    def diagnostics(self) -> dict[str, Any]:
        """Return plain values that JSON can hold."""


class FoldIn(ABC):
    """A method that needs another loss or another score for new users than the defaults below."""

    @abstractmethod
    def score_user(self, user: Tensor, items: Tensor) -> Tensor:
        """Return the scores of one user's representation [D] for items [n, D], without item bias: [n]."""

    @abstractmethod
    def user_loss(self, positive: Tensor, negative: Tensor) -> Tensor:
        """Return the loss of one user, given the scores of the items they have used and of all other items."""


def score_user(method: TrainingMethod, user: Tensor, items: Tensor) -> Tensor:
    """Return the scores of a new user's representation [D] for items [n, D]: [n]."""
    return method.score_user(user, items) if isinstance(method, FoldIn) else method.backbone.score(user, items)


def user_loss(method: TrainingMethod, positive: Tensor, negative: Tensor) -> Tensor:
    """Return the loss of a new user; the default is binary cross-entropy."""
    if isinstance(method, FoldIn):
        return method.user_loss(positive, negative)
    return F.softplus(-positive).mean() + F.softplus(negative).mean()


def item_bias(method: TrainingMethod) -> Tensor | None:
    """Return the numbers that the method adds to the scores of the items, [items], or None."""
    return method.item_bias() if isinstance(method, ItemBias) else None
