"""Runs of a grid handed out through a database, so that no two machines do the same."""

import time
from contextlib import suppress

from icpe.errors import ConfigError

try:
    from optuna.storages import RDBStorage
    from optuna.trial import TrialState, create_trial

    from icpe.jobs._claims import LOST, SURPLUS, Claims, Ended, counted
except ImportError as _error:
    raise ConfigError("--storage needs Optuna, which is not installed: pip install 'icpe[tune]'") from _error

_BEAT_EVERY = 60.0  # seconds between signs of life


class RunClaims(Claims):
    """A claim per run, by name.

    A run that failed on one machine may be tried by another, which may have more memory. Whoever comes later to a run
    that two have begun in the same moment gives way.

    Args:
        storage: where.
        name: of the study; machines that share a grid use the same.
    """

    def __init__(self, storage: RDBStorage, name: str) -> None:
        super().__init__(storage, name)
        self._mine: dict[str, int] = {}
        self._beaten = time.monotonic()

    def claim(self, run: str) -> bool:
        """Whether the run is ours; False if it is done or on its way elsewhere."""
        if self._taken_before(run, None):
            return False
        begun = self._begin(user_attrs={"run": run})
        if self._taken_before(run, self._storage.get_trial_number_from_id(begun)):
            self._void(begun, SURPLUS)
            return False
        self._mine[run] = begun
        return True

    def done(self, run: str) -> None:
        """It is finished, by whomever: also what the folder held before it was shared."""
        if run in self._mine:
            self._end(self._mine.pop(run), TrialState.COMPLETE, [1.0])
        elif TrialState.COMPLETE not in [trial.state for trial in self._all() if trial.user_attrs.get("run") == run]:
            known = {"owner": self._owner, "run": run}
            template = create_trial(state=TrialState.COMPLETE, value=1.0, user_attrs=known)
            self._storage.create_new_trial(self._study, template_trial=template)

    def failed(self, run: str, reason: str) -> None:
        """It could not be trained; others may try."""
        trial = self._mine.pop(run)
        with suppress(Ended):
            self._storage.set_trial_user_attr(trial, "reason", reason)
        self._end(trial, TrialState.FAIL)

    def beat(self) -> None:
        """Show that what was claimed is on its way; may be called often."""
        if time.monotonic() - self._beaten > _BEAT_EVERY:
            self._beaten = time.monotonic()
            for trial in self._mine.values():
                self._show_life(trial)

    def give_back(self) -> None:
        """Let others have what was claimed and has not ended."""
        while self._mine:
            self._void(self._mine.popitem()[1], LOST)

    def _taken_before(self, run: str, number: int | None) -> bool:
        """Whether somebody has finished or begun it, before the trial of this number if there is one."""
        taken = (TrialState.RUNNING, TrialState.COMPLETE)
        return any(
            trial.user_attrs.get("run") == run and trial.state in taken and (number is None or trial.number < number)
            for trial in counted(self._living())
        )
