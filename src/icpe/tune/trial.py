"""One trial, as a worker executes it: settings, one training run per seed, and the score in the database."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import mean
from typing import Literal

import optuna

from icpe.data.interactions import Interactions
from icpe.errors import ConfigError
from icpe.recommender.fitting import finished_model
from icpe.recommender.validation import validator
from icpe.runs.config import RunConfig
from icpe.train import Trainer
from icpe.tune.space import Point, Space
from icpe.tune.storage import JOB, open_storage, quiet_optuna, storage_errors
from icpe.tune.study import FOUND, CellStudy, found_in, scores_in

Score = Callable[[RunConfig, int], float]
Criterion = Literal["ndcg", "balanced_ndcg", "hypervolume"]

_SPLITS_IN_MEMORY = 8
_splits: dict[str, tuple[Interactions, Interactions, str]] = {}


@dataclass(frozen=True)
class TrialTask:
    """Everything a worker needs to run the next trial of a study.

    Attributes:
        job: identifies the job in the database.
        url: of the database.
        study: name of the study.
        config: settings that all trials share.
        space: what is searched.
        seeds: of each trial.
        budget: number of trials of the study.
        most_seconds: start no trial of a study that has trained for longer.
        prune: whether to skip the other seeds when the first is below the median.
        criterion: what the score measures.
        score: trains with a configuration and a seed and returns the score.
    """

    job: str
    url: str
    study: str
    config: RunConfig
    space: Space
    seeds: tuple[int, ...]
    budget: int
    most_seconds: float
    prune: bool
    criterion: Criterion
    score: Score


@dataclass(frozen=True)
class TrialResult:
    """A trial that has ended.

    Attributes:
        state: "complete", "pruned" or "failed".
        score: mean over the seeds; of the first seed alone if pruned; None if failed.
        point: what was tried.
        seconds: of training.
        reason: why it failed.
    """

    state: str
    score: float | None
    point: Point
    seconds: float
    reason: str


class _TrainingFailed(Exception):
    """The reason is in the database."""


class _Surplus(Exception):
    """Another process started the same trial, or the last one of the budget."""


def run_trial(task: TrialTask) -> TrialResult | None:
    """Run the next trial of a study and return what came out; None if none is left to run.

    Raises:
        IcpeError: the database cannot be read or written.
    """
    with quiet_optuna(), storage_errors():
        study = CellStudy(open_storage(task.url), task.study, task.space)
        while study.is_open(task.budget, task.most_seconds) and study.choose_next():
            ended: list[optuna.trial.FrozenTrial] = []
            study.optuna.optimize(
                lambda trial, study=study: _objective(trial, study, task),  # type: ignore[misc]
                n_trials=1,
                catch=(_TrainingFailed, _Surplus),
                callbacks=[lambda _, trial, ended=ended: ended.append(trial)],  # type: ignore[misc]
            )
            if "surplus" not in ended[0].user_attrs:
                return result_of(ended[0])
    return None


def result_of(trial: optuna.trial.FrozenTrial) -> TrialResult:
    """Return a trial that has ended as a plain result."""
    state = {"COMPLETE": "complete", "PRUNED": "pruned"}.get(trial.state.name, "failed")
    found = found_in(trial)
    return TrialResult(
        state, None if state == "failed" else trial.value, trial.params, found["seconds"], found.get("reason", "")
    )


def _objective(trial: optuna.Trial, study: CellStudy, task: TrialTask) -> float:
    point = study.point_of(trial)
    trial.set_user_attr(JOB, task.job)
    if study.is_surplus(trial, point, task.budget):
        trial.set_user_attr("surplus", True)
        raise _Surplus
    config = task.space.apply(task.config, point)
    scores = scores_in(trial.user_attrs)  # a trial that was interrupted has some already
    for number, seed in enumerate(task.seeds):
        if seed not in scores:
            scores[seed] = _train(trial, task, config, seed, scores)
        if number == 0:
            trial.report(scores[seed], step=0)
            if task.prune and len(task.seeds) > 1 and trial.should_prune():
                raise optuna.TrialPruned
    return mean(scores[seed] for seed in task.seeds)


def _train(trial: optuna.Trial, task: TrialTask, config: RunConfig, seed: int, scores: dict[int, float]) -> float:
    """Train with one seed, record the score or the reason of the failure, and return the score."""
    before = trial.user_attrs.get(FOUND, {}).get("seconds", 0.0)
    started = time.perf_counter()
    try:
        score = task.score(config, seed)
    except Exception as error:  # settings that cannot be trained must not end a night of tuning
        reason = " ".join((str(error) or repr(error)).split())
        found = {"seconds": before + time.perf_counter() - started, "reason": reason, "error": type(error).__name__}
        trial.set_user_attr(FOUND, found)
        raise _TrainingFailed from error
    known = {str(key): value for key, value in {**scores, seed: score}.items()}
    trial.set_user_attr(FOUND, {"scores": known, "seconds": before + time.perf_counter() - started})
    return score


def validation_score(config: RunConfig, seed: int, criterion: Criterion = "ndcg") -> float:
    """Train with one seed and return what the criterion measures on the validation part.

    ``ndcg`` and ``balanced_ndcg`` are the best value of the goal of training, at the setting of the dial that training
    chose. ``hypervolume`` is the area below the curve of niche share and NDCG over all settings of the dial.

    Raises:
        IcpeError: the settings cannot be trained.
        ValueError: the score is not a number.
    """
    config = config.updated("train", {"seed": seed})
    method = config.make_method()
    train, valid, _ = open_training(config, seed)
    settings = config.train_settings(method)
    found = validator(train, valid, settings)
    trainer = Trainer(method, train, seed, settings, found)
    trainer.run()
    score = float(trainer.position.best)
    if criterion == "hypervolume":
        score = finished_model(trainer, train, found).front().hypervolume
    if not math.isfinite(score):
        raise ValueError(f"{criterion}@20 on validation is {score}")
    return score


def open_training(config: RunConfig, seed: int) -> tuple[Interactions, Interactions, str]:
    """Return training part, validation part and a hash of both. The test part is dropped at once.

    Raises:
        ConfigError: the validation part is empty.
    """
    config = config.updated("train", {"seed": seed})
    key = repr((config.data, config.split, seed))
    if key not in _splits:
        parts = config.open_parts()
        if len(parts.valid) == 0:
            raise ConfigError("tuning needs a validation part to choose settings on: add --valid FILE")
        while len(_splits) >= _SPLITS_IN_MEMORY:
            del _splits[next(iter(_splits))]
        _splits[key] = (parts.train, parts.valid, f"{parts.train.content_hash} {parts.valid.content_hash}")
    return _splits[key]


def forget_data() -> None:
    """Free the memory of the splits that this process has opened."""
    _splits.clear()
