"""Who works on what, in a database that several processes and machines share.

A claim is a trial of an Optuna study: it is written when work begins, with who does it, and shows signs of life. One
whose process is gone is void, so that somebody else may begin the same.
"""

import os
import socket
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import optuna
from optuna.storages import RDBStorage
from optuna.trial import FrozenTrial, TrialState, create_trial

Ended = RuntimeError  # what Optuna raises where a trial has ended already; later versions have a kind of it
SILENT = 600.0  # seconds after which a trial of another machine that says nothing is taken for dead
LOST, SURPLUS = "lost", "surplus"  # why a trial does not count


class Claims:
    """Claims in one study.

    Args:
        storage: where.
        name: of the study; it is made if it is not there.
    """

    def __init__(self, storage: RDBStorage, name: str) -> None:
        self._storage, self.name = storage, name
        optuna.create_study(storage=storage, study_name=name, direction="maximize", load_if_exists=True)
        self._study = storage.get_study_id_from_name(name)
        self._owner = {"host": socket.gethostname(), "pid": os.getpid(), "session": uuid.uuid4().hex}

    def _begin(self, **template: Any) -> int:
        """Write a trial that runs, and give its id."""
        known = template.pop("user_attrs", {})
        signs = {"owner": self._owner, "alive": time.time()}
        trial = create_trial(state=TrialState.RUNNING, user_attrs={**signs, **known}, **template)
        return self._storage.create_new_trial(self._study, template_trial=trial)

    def _show_life(self, trial: int) -> None:
        with suppress(Ended):
            self._storage.set_trial_user_attr(trial, "alive", time.time())

    def _all(self) -> list[FrozenTrial]:
        return self._storage.get_all_trials(self._study, deepcopy=False)

    def _living(self) -> list[FrozenTrial]:
        """All trials, after those whose process is gone were made void."""
        trials = self._all()
        return self._all() if self._release_dead(trials) else trials

    def _release_dead(self, trials: list[FrozenTrial]) -> bool:
        """Void trials whose process is gone, and say whether there were some."""
        dead = [trial.number for trial in trials if trial.state == TrialState.RUNNING and self._is_dead(trial)]
        for number in dead:
            self._void(self._storage.get_trial_id_from_study_id_trial_number(self._study, number), LOST)
        return bool(dead)

    def _is_dead(self, trial: FrozenTrial) -> bool:
        owner = trial.user_attrs.get("owner", {})
        if owner.get("session") == self._owner["session"]:
            return False
        if owner.get("host") == self._owner["host"] and (owner["pid"] == os.getpid() or not _lives(owner["pid"])):
            return True
        return time.time() - float(trial.user_attrs.get("alive", 0.0)) > SILENT

    def _void(self, trial: int, why: str) -> None:
        with suppress(Ended):
            self._storage.set_trial_user_attr(trial, "void", why)
        self._end(trial, TrialState.FAIL)

    def _end(self, trial: int, state: TrialState, values: list[float] | None = None) -> None:
        # Another machine may have taken it for dead and ended it; then it is done again there.
        with suppress(Ended):
            self._storage.set_trial_state_values(trial, state, values)


def counted(trials: list[FrozenTrial]) -> list[FrozenTrial]:
    """Those that are not void."""
    return [trial for trial in trials if "void" not in trial.user_attrs]


def _lives(process: int) -> bool:
    """Whether there is such a process on this machine; True where that cannot be told."""
    if os.name != "posix":
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


@contextmanager
def quiet() -> Iterator[None]:
    """Without Optuna's own lines."""
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        yield
    finally:
        optuna.logging.set_verbosity(before)
