"""Validation during training: the metrics of the current parameters at the best setting of the dial."""

from typing import Any

import numpy as np
import torch

from icpe.data.interactions import Interactions
from icpe.errors import DataError
from icpe.metrics import evaluate_lists
from icpe.ranking.sweep import item_bias
from icpe.ranking.tables import ScoreTable, with_bias
from icpe.recommender.dial import CRITERIA, Wish
from icpe.recommender.front import SHARES, Front, Meter, settings_for
from icpe.recommender.hidden import hidden_for
from icpe.recommender.shared_ranking import evaluated
from icpe.shards import current
from icpe.split.parts import recode
from icpe.train.abilities import OwnDirection
from icpe.train.dial import dial_direction, ranking_scores
from icpe.train.loop import Validation
from icpe.train.method import TrainingMethod
from icpe.train.settings import TrainSettings
from icpe.types import FloatArray

DEPTH = 20  # length of the lists
_NEARBY = 2  # places of the grid on either side of the last choice that later validations try


class Validator:
    """Evaluates a method on the validation part, and chooses the setting of its dial there.

    Args:
        train: the training part.
        valid: the validation part.
        settings: settings of the training loop, with the goal of the choice.

    Raises:
        DataError: no validation pair has a user and an item of the training data.
    """

    def __init__(self, train: Interactions, valid: Interactions, settings: TrainSettings) -> None:
        if not (valid.users.equals(train.users) and valid.items.equals(train.items)):
            valid = recode(valid, train)
            if len(valid) == 0:
                raise DataError("no validation pair has a user and an item of the training data")
        self.goal, self.niche_share = settings.goal, settings.niche_share
        self.train, self.hide = train, hidden_for("valid", train, valid)
        self.meter = Meter(train, valid, DEPTH)

    def __call__(self, method: TrainingMethod, last_share: float | None = None) -> Validation:
        """Return the metrics of the method and the chosen setting.

        Args:
            method: the method in evaluation mode.
            last_share: niche share at the last validation. It changes slowly, so only neighbouring shares are tried.
        """
        scores, direction = ranking_scores(method, self.train), dial_direction(method, self.train)
        fixed = method.settings.beta is not None or self.goal == "none"
        beta = method.settings.beta if fixed else self._choose(scores, direction, last_share)
        table = with_bias(scores, item_bias(direction, beta)) if beta else scores
        meter = self.meter
        found = evaluated(
            table,
            meter.users,
            meter.n,
            self.hide,
            lambda lists: evaluate_lists(lists, meter.held, self.train, n=[meter.n]),
        )
        metrics = found.values
        value = metrics[f"{CRITERIA.get(self.goal, 'ndcg')}@{meter.n}"]
        return Validation(value, metrics, None if fixed else beta, metrics[f"apt@{meter.n}"])

    def _choose(self, scores: ScoreTable, direction: FloatArray, last_share: float | None) -> float:
        if self.niche_share is not None:
            found = self.settings_for([self.niche_share], scores, direction)
            found = found or self.settings_for(SHARES, scores, direction)  # out of reach: come as close as possible
            return min(found.items(), key=lambda one: abs(one[0] - (self.niche_share or 0.0)))[1] if found else 0.0
        shares = SHARES if last_share is None else _neighbours(last_share)
        settings = [*self.settings_for(shares, scores, direction).values(), *([0.0] if last_share is None else [])]
        if not settings:
            return 0.0
        return self.wish.choose(self.meter.front(scores, direction, settings, self.hide))

    def settings_for(self, shares: Any, scores: ScoreTable, direction: FloatArray) -> dict[float, float]:
        """Return the settings that lead to these niche shares, by share, the same in all processes."""
        meter, group = self.meter, current()
        found = settings_for(shares, scores, direction, meter.users, meter.niche, meter.n, self.hide)
        return found if group is None else dict(group.agreed(list(found.items())))

    @torch.no_grad()
    def front(self, method: TrainingMethod) -> Front:
        """Return the front of a trained method, with settings for all niche shares that can be reached."""
        scores, direction = ranking_scores(method, self.train), dial_direction(method, self.train)
        placed = self.settings_for(SHARES, scores, direction).values()
        own = [1.0] if isinstance(method, OwnDirection) else []  # the score of training
        given = [] if method.settings.beta is None else [method.settings.beta]
        return self.meter.front(scores, direction, [*placed, 0.0, *own, *given], self.hide)

    @property
    def wish(self) -> Wish:
        """What the dial should achieve."""
        if self.niche_share is not None:
            return Wish(niche_share=self.niche_share)
        return Wish(goal="balanced" if self.goal == "balanced" else "traffic")


def validator(train: Interactions, valid: Interactions | None, settings: TrainSettings) -> Validator | None:
    """Return what evaluates a method on the validation part, or None without validation data."""
    return None if valid is None or len(valid) == 0 else Validator(train, valid, settings)


def _neighbours(share: float) -> list[float]:
    """Return the niche shares of the grid that are next to a share."""
    nearest = int(np.argmin(np.abs(np.array(SHARES) - share)))
    return list(SHARES[max(0, nearest - _NEARBY) : nearest + _NEARBY + 1])
