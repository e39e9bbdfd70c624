"""The trials of one method on one backbone, in a database that several processes may share.

Everything is in the database, so a tuning continues from what it finds there. A running trial sends heartbeats; when
its process is gone, its settings are queued again together with the scores of the seeds that were trained.
"""

import json
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import optuna
from optuna.pruners import MedianPruner
from optuna.samplers import PartialFixedSampler, RandomSampler
from optuna.storages import RDBStorage
from optuna.trial import FrozenTrial, TrialState

from icpe.errors import ConfigError
from icpe.tune.proposals import propose
from icpe.tune.space import Point, Space
from icpe.tune.storage import JOB, experimental_features, queue_again

FOUND = "found"  # attribute of a trial: its scores and seconds so far, or why it failed
_TRIALS_FOR_MEDIAN = 5
_WAIT = 5.0  # seconds; writing the settings of a trial takes much less


@dataclass(frozen=True)
class StudySummary:
    """State of a study.

    Attributes:
        complete: number of trials with all seeds.
        pruned: number of trials that were stopped after the first seed.
        failed: number of trials that could not be trained.
        running: number of trials that have not ended, here or elsewhere.
        seconds: spent on training in all of them.
        best: the best point, or None.
        score: mean score of the best point over the seeds, or None.
        scores: of the best point, by seed.
        last_reason: why the last failed trial failed; empty if none failed.
    """

    complete: int
    pruned: int
    failed: int
    running: int
    seconds: float
    best: Point | None
    score: float | None
    scores: dict[int, float]
    last_reason: str

    @property
    def ended(self) -> int:
        """Number of trials that count against the budget and have ended."""
        return self.complete + self.pruned + self.failed


class CellStudy:
    """The study of one method on one backbone.

    Args:
        storage: where it is kept.
        name: of the study; it is created if it does not exist.
        space: what is searched.
    """

    def __init__(self, storage: RDBStorage, name: str, space: Space) -> None:
        self.name, self.space = name, space
        self._storage = storage
        self.optuna = optuna.create_study(
            storage=storage,
            study_name=name,
            direction="maximize",
            load_if_exists=True,
            pruner=MedianPruner(n_startup_trials=_TRIALS_FOR_MEDIAN),
        )

    def check_identity(self, identity: dict[str, Any]) -> None:
        """Record what all trials of the study have in common, or compare it with what was recorded.

        Raises:
            ConfigError: the study was made with something else.
        """
        wanted = json.loads(json.dumps(identity))
        found = self.optuna.user_attrs.get("identity")
        if found is None:
            self.optuna.set_user_attr("identity", wanted)
            return
        found = {"criterion": "ndcg", **found}  # the only one in earlier versions
        for key in wanted:
            if found.get(key) != wanted[key]:
                raise ConfigError(
                    f"the study holds another tuning of {self.name}: its {key} are {found.get(key)}, but this command "
                    f"asks for {wanted[key]}; choose another folder with -o"
                )

    def counted(self) -> list[FrozenTrial]:
        """Return the trials that count against the budget: those that run, have ended, or could not be trained.

        Trials that were interrupted do not count; they are queued again.
        """
        return [trial for trial in self.optuna.get_trials(deepcopy=False) if _counts(trial)]

    def is_open(self, budget: int, most_seconds: float) -> bool:
        """Return whether a further trial may start."""
        known = self.counted()
        return len(known) < budget and not _untrainable(known) and _seconds(known) < most_seconds

    def choose_next(self) -> bool:
        """Choose the settings of the next trial; return False if none are left to try.

        Trials that were interrupted are in Optuna's queue and come first.
        """
        point = propose(self.counted(), self.space, self.name)
        with experimental_features():
            self.optuna.sampler = PartialFixedSampler(point or {}, RandomSampler())
        return point is not None or bool(self.optuna.get_trials(deepcopy=False, states=(TrialState.WAITING,)))

    def point_of(self, trial: optuna.Trial) -> Point:
        """Return the settings of a trial that has just started."""
        return {name: trial.suggest_categorical(name, list(labels)) for name, labels in self.space.values.items()}

    def is_surplus(self, trial: optuna.Trial, point: Point, budget: int) -> bool:
        """Return whether another process has started the last trial of the budget, or the same settings, before."""
        before = self._counted_before(trial.number)
        return len(before) >= budget or any(other.params == point for other in before)

    def _counted_before(self, number: int) -> list[FrozenTrial]:
        """Return earlier trials that count, after waiting for those that have not written all their settings yet."""
        end = time.monotonic() + _WAIT
        while True:
            before = [trial for trial in self.counted() if trial.number < number]
            if all(JOB in trial.user_attrs for trial in before) or time.monotonic() > end:
                return before
            time.sleep(0.05)

    def requeue(self, jobs: Collection[str] = (), *, all_running: bool = False) -> None:
        """Queue trials again whose processes are gone.

        Args:
            jobs: of which jobs, whether their trials run or were interrupted.
            all_running: whether to queue every running trial again, because no other process uses the study.
        """
        for trial in self.optuna.get_trials(deepcopy=True):
            ours, running = trial.user_attrs.get(JOB) in jobs, trial.state == TrialState.RUNNING
            if (running and (ours or all_running)) or (ours and _interrupted(trial)):
                if running:
                    self._storage.set_trial_state_values(self._id(trial), TrialState.FAIL)
                queue_again(self.optuna, trial)

    def record_death(self, job: str, reason: str, seconds: float) -> FrozenTrial | None:
        """Record that the worker of a job died, and return its trial; None if the job had not started one."""
        for trial in self.optuna.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
            if trial.user_attrs.get(JOB) == job:
                before = found_in(trial)
                found = {**before, "seconds": before.get("seconds", 0.0) + seconds, "reason": reason, "error": "Died"}
                self._storage.set_trial_user_attr(self._id(trial), FOUND, found)
                self._storage.set_trial_state_values(self._id(trial), TrialState.FAIL)
                return self.optuna.get_trials()[trial.number]
        return None

    def summary(self) -> StudySummary:
        """Return the state of the study."""
        known = self.counted()
        by_state = {state: [trial for trial in known if trial.state == state] for state in TrialState}
        complete, failed = by_state[TrialState.COMPLETE], by_state[TrialState.FAIL]
        best = max(complete, key=lambda trial: (trial.value, -trial.number), default=None)
        return StudySummary(
            complete=len(complete),
            pruned=len(by_state[TrialState.PRUNED]),
            failed=len(failed),
            running=len(by_state[TrialState.RUNNING]),
            seconds=_seconds(known),
            best=None if best is None else best.params,
            score=None if best is None else best.value,
            scores={} if best is None else scores_in(best.user_attrs),
            last_reason=found_in(failed[-1])["reason"] if failed else "",
        )

    def _id(self, trial: FrozenTrial) -> int:
        study = self._storage.get_study_id_from_name(self.name)
        return self._storage.get_trial_id_from_study_id_trial_number(study, trial.number)


def found_in(trial: FrozenTrial) -> dict[str, Any]:
    """Return what is known of a trial: scores by seed, seconds, and the reason and class of a failure."""
    found: dict[str, Any] = trial.user_attrs.get(FOUND, {})
    return found


def scores_in(attributes: dict[str, Any]) -> dict[int, float]:
    """Return the scores by seed from the attributes of a trial; JSON keeps the seeds as text."""
    return {int(seed): score for seed, score in attributes.get(FOUND, {}).get("scores", {}).items()}


def _counts(trial: FrozenTrial) -> bool:
    if trial.state == TrialState.FAIL:
        return "reason" in found_in(trial)  # others were interrupted or started by two processes at once
    return trial.state != TrialState.WAITING


def _interrupted(trial: FrozenTrial) -> bool:
    return trial.state == TrialState.FAIL and not _counts(trial) and "surplus" not in trial.user_attrs


def _seconds(trials: Sequence[FrozenTrial]) -> float:
    return float(sum(found_in(trial).get("seconds", 0.0) for trial in trials))


def _untrainable(trials: Sequence[FrozenTrial]) -> bool:
    """Return whether even the defaults are refused, for example because the method needs another kind of backbone."""
    return bool(trials) and found_in(trials[0]).get("error") == ConfigError.__name__
