"""The model of an arm during a trajectory: when it is trained, and from which model it starts."""

import shutil
from pathlib import Path

from icpe.data.interactions import Interactions
from icpe.ranking import ScoreTable
from icpe.recommender.model import Model
from icpe.rng import stream
from icpe.runs.config import RunConfig
from icpe.runs.load import load
from icpe.simulate.arms import NONE, ORACLE, train_arm
from icpe.simulate.population import Population


class Learner:
    """The model of an arm. It is trained when a list is needed, so a continued trajectory trains at most once more.

    With warm starts, the last model is saved in the folder of the trajectory until the trajectory is over: a continued
    trajectory starts its next training from the same model.

    Args:
        arm: name of the arm.
        seed: of the trajectory.
        config: settings of the backbone and of training.
        folder: of the trajectory, for saved models.
        warm: whether trainings after the first start from the previous model.
    """

    def __init__(self, arm: str, seed: int, config: RunConfig, folder: Path, warm: bool) -> None:
        self._arm, self._seed, self._config, self._folder, self._warm = arm, seed, config, folder, warm
        self._due: list[tuple[Interactions, int]] = []
        self._model: Model | None = None

    @property
    def trains(self) -> bool:
        """Whether the arm has a model at all."""
        return self._arm not in (NONE, ORACLE)

    def learn_from(self, log: Interactions, number: int) -> None:
        """Note that the arm is trained on a log before a round."""
        if self._warm and self._saved(number).exists():
            self._due, self._model = [], load(self._saved(number), self._config.plugins)
        else:
            self._due = [*(self._due if self._warm else []), (log, number)]

    def table(self, population: Population) -> ScoreTable | None:
        """The scores that rank the items in a round, or None for an arm without a recommender."""
        if not self.trains:
            return population.truth if self._arm == ORACLE else None
        for log, number in self._due:
            self._train(log, number)
        self._due = []
        return None if self._model is None else self._model.scores

    def forget(self, but: int | None = None) -> None:
        """Remove saved models, except that of one training."""
        for path in self._folder.glob("model-[0-9]*"):
            if but is None or path != self._saved(but):
                shutil.rmtree(path)

    def _train(self, log: Interactions, number: int) -> None:
        chosen = int(stream(self._seed, f"simulate/training/{number}").integers(2**31))
        earlier = self._model if self._warm else None
        self._model = train_arm(self._arm, log, self._config, chosen, self._seed, earlier)
        if self._warm:
            self._model.save(self._saved(number))
            self.forget(but=number)

    def _saved(self, number: int) -> Path:
        return self._folder / f"model-{number:04}"
