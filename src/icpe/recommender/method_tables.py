"""The tables of a trained method. Each one is computed when it is first needed and then kept."""

from functools import cached_property

import torch

from icpe.data.interactions import Interactions
from icpe.ranking import ScoreTable
from icpe.ranking.tables import DotScores, to_numpy
from icpe.recommender.fold_in import NewUsers
from icpe.train.dial import boosted, dial_direction, ranking_scores
from icpe.train.method import TrainingMethod
from icpe.types import FloatArray, IntArray


class MethodTables:
    """What a :class:`~icpe.recommender.ranker.Ranker` needs, computed by a trained method.

    Args:
        method: the trained method, in evaluation mode.
        log: the training data.
    """

    def __init__(self, method: TrainingMethod, log: Interactions) -> None:
        self._method, self._log = method, log

    @cached_property
    def scores(self) -> ScoreTable:
        """The scores that rank items, without the dial."""
        with torch.no_grad():
            return ranking_scores(self._method, self._log)

    @cached_property
    def direction(self) -> FloatArray:
        """The direction of the dial, float32 [items]."""
        return dial_direction(self._method, self._log)

    @cached_property
    def units(self) -> DotScores:
        """Cosines between the representations of items."""
        with torch.no_grad():
            vectors = self._method.backbone.reps()[1]
            units = to_numpy(torch.nn.functional.normalize(vectors, dim=-1))
        return DotScores(units, units)

    def new_users(self, histories: list[IntArray]) -> ScoreTable:
        """Return the scores of new users with these histories, without the dial. Codes of users are positions."""
        return boosted(self._fold_in.table(histories), self._method, self._log)

    @cached_property
    def _fold_in(self) -> NewUsers:
        return NewUsers(self._method, self._log)
