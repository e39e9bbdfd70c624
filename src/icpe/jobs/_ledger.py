"""Trials of one method on one backbone, in a database that several processes and machines may share.

Everything that matters is in the database, so a tuning goes on from what it finds there. A trial is written when it
begins, with who runs it; one whose process is gone is void, and its settings are the next to be tried.
"""

import json
import math
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median
from typing import Any

from icpe.errors import ConfigError, IcpeError
from icpe.jobs._space import Point, Space
from icpe.rng import random_keys

try:
    import optuna
    from optuna.distributions import BaseDistribution, CategoricalDistribution
    from optuna.exceptions import ExperimentalWarning, StorageInternalError
    from optuna.samplers import TPESampler
    from optuna.storages import RDBStorage
    from optuna.trial import FrozenTrial, TrialState
    from sqlalchemy.exc import IntegrityError, OperationalError, ProgrammingError, SQLAlchemyError

    from icpe.jobs._claims import LOST, SURPLUS, Claims, Ended, counted, quiet
except ImportError as _error:
    raise ConfigError("tuning needs Optuna, which is not installed: pip install 'icpe[tune]'") from _error

__all__ = ["Ledger", "Running", "Standing", "open_storage", "quiet", "told_in_one_line"]

Distributions = dict[str, BaseDistribution]
_RANDOM = 8  # trials before the sampler learns from them
_TO_COMPARE = 5  # trials a median needs


@dataclass
class Running:
    """A trial on its way.

    Attributes:
        id: in the database.
        point: what it tries.
        scores: by seed, as far as they are known.
        seconds: of training so far.
    """

    id: int
    point: Point
    scores: dict[int, float]
    seconds: float


@dataclass(frozen=True)
class Standing:
    """What the database holds of a cell.

    Attributes:
        complete: trials with all seeds.
        pruned: trials stopped after the first seed.
        failed: trials that could not be trained.
        running: trials not ended, here or elsewhere.
        seconds: of training in all of them.
        best: the best point, None if there is none.
        score: its mean over seeds.
        scores: its scores by seed.
        reasons: why trials failed, in their order.
        hopeless: why the method cannot be trained on the backbone at all, else "".
    """

    complete: int
    pruned: int
    failed: int
    running: int
    seconds: float
    best: Point | None
    score: float | None
    scores: dict[int, float]
    reasons: list[str]
    hopeless: str

    @property
    def finished(self) -> int:
        """Trials that count against the budget and have ended."""
        return self.complete + self.pruned + self.failed


def open_storage(where: Path | str) -> RDBStorage:
    """A file as SQLite, or any database by its URL.

    Raises:
        ConfigError: it cannot be opened.
    """
    url = f"sqlite:///{where.absolute()}" if isinstance(where, Path) else where
    name = str(where) if isinstance(where, Path) else "the database of --storage"  # its URL may hold a password
    try:
        if isinstance(where, Path):
            where.parent.mkdir(parents=True, exist_ok=True)
        return _opened(url)
    except Exception as error:  # of SQLAlchemy, its drivers, Optuna and the file system
        missing = error.__cause__ or error.__context__
        if isinstance(error, ImportError) and isinstance(missing, ModuleNotFoundError):
            driver = missing.name
            raise ConfigError(
                f"{name} cannot be opened: its driver {driver} is not installed. Install it (pip install {driver}), or "
                "name another in the URL, such as postgresql+psycopg2://"
            ) from error
        cause = str(getattr(error, "orig", None) or error).splitlines()[0]
        raise ConfigError(f"{name} cannot be opened as a study: {cause}") from error


def _opened(url: str) -> RDBStorage:
    """Optuna makes its tables in a new database; where two machines do so at once, one of them comes too late."""
    slow = {"connect_args": {"timeout": 60}} if url.startswith("sqlite") else {}
    for wait in (0.2, 1.0, 3.0):
        try:
            return RDBStorage(url, engine_kwargs=slow)
        except (IntegrityError, ProgrammingError, OperationalError) as error:
            if not any(word in str(error) for word in ("already exists", "duplicate", "UNIQUE")):
                raise
            time.sleep(wait)
    return RDBStorage(url, engine_kwargs=slow)


@contextmanager
def told_in_one_line() -> Iterator[None]:
    """A database that stops answering is told as one of our errors."""
    try:
        yield
    except (StorageInternalError, SQLAlchemyError) as error:
        cause = str(getattr(error.__cause__ or error, "orig", None) or error).splitlines()[0]
        raise IcpeError(f"the study cannot be read or written: {cause}; what it holds is kept") from error


class Ledger(Claims):
    """Trials of one cell.

    Args:
        storage: where.
        name: of the cell's study.
        space: what is searched.
        seeds: of a trial.
        identity: what else must be the same for trials to be comparable, as plain values.

    Raises:
        ConfigError: the storage holds another tuning by this name.

    Attributes:
        taken: trials that count against the budget, when the storage was last looked at.
    """

    def __init__(
        self, storage: RDBStorage, name: str, space: Space, seeds: Sequence[int], identity: dict[str, Any]
    ) -> None:
        super().__init__(storage, name)
        self.space, self._seeds = space, list(seeds)
        self._distributions: Distributions = {
            key: CategoricalDistribution(list(labels)) for key, labels in space.values.items()
        }
        self.taken = 0
        self._check_identity(
            {**identity, "seeds": self._seeds, "values": {k: list(v) for k, v in space.values.items()}}
        )

    def begin(self, budget: int, most_seconds: float = math.inf) -> Running | None:
        """The next trial, or None where the budget is spent, all is hopeless, or nothing is left to try."""
        while True:
            trials = self._living()
            known = counted(trials)
            self.taken = len(known)
            if self.taken >= budget or _hopeless(known) or _seconds(known) >= most_seconds:
                return None
            point, found = _lost(trials, known)
            if point is None:
                point = _propose(known, self.space, self._distributions, self.name)
            if point is None:
                return None
            begun = self._write(point, found)
            # Another machine may have begun one in the same moment: of those, the later ones give way.
            number = self._storage.get_trial_number_from_id(begun.id)
            before = [trial for trial in counted(self._all()) if trial.number < number]
            if len(before) < budget and all(trial.params != point for trial in before):
                self.taken = len(before) + 1
                return begun
            self._void(begun.id, SURPLUS)

    def _write(self, point: Point, found: dict[str, Any]) -> Running:
        scores = _scores(found)
        begun = self._begin(
            params=point,
            distributions=self._distributions,
            user_attrs={"found": found},
            intermediate_values={0: scores[self._seeds[0]]} if scores else {},
        )
        return Running(begun, point, scores, found.get("seconds", 0.0))

    def score(self, trial: Running, seed: int, score: float, seconds: float) -> None:
        """Write down what one seed gave."""
        first = not trial.scores
        trial.scores[seed] = score
        trial.seconds += seconds
        with suppress(Ended):
            if first:  # what the sampler knows of trials that are pruned
                self._storage.set_trial_intermediate_value(trial.id, 0, score)
            found = {"scores": {str(key): value for key, value in trial.scores.items()}, "seconds": trial.seconds}
            self._storage.set_trial_user_attr(trial.id, "found", found)

    def is_worse(self, trial: Running) -> bool:
        """Whether the first seed alone gives less than it gave the median of the trials that ended, five at least."""
        first = self._seeds[0]
        ended = [one for one in counted(self._all()) if one.state in (TrialState.COMPLETE, TrialState.PRUNED)]
        others = [scores[first] for scores in (_scores(_found(one)) for one in ended) if first in scores]
        return len(others) >= _TO_COMPARE and trial.scores[first] < median(others)

    def complete(self, trial: Running) -> None:
        """All seeds are done."""
        self._end(trial.id, TrialState.COMPLETE, [mean(trial.scores[seed] for seed in self._seeds)])

    def prune(self, trial: Running) -> None:
        """The first seed was enough."""
        self._end(trial.id, TrialState.PRUNED, [trial.scores[self._seeds[0]]])

    def fail(self, trial: Running, reason: str, kind: str, seconds: float) -> None:
        """It could not be trained."""
        found = {"seconds": trial.seconds + seconds, "reason": reason, "kind": kind}
        with suppress(Ended):
            self._storage.set_trial_user_attr(trial.id, "found", found)
        self._end(trial.id, TrialState.FAIL)

    def abandon(self, trial: Running) -> None:
        """It was interrupted: its settings are the next to be tried."""
        self._void(trial.id, LOST)

    def beat(self, trial: Running) -> None:
        """Let other machines know that it is still on its way."""
        self._show_life(trial.id)

    def standing(self) -> Standing:
        """Where the cell stands."""
        known = counted(self._all())
        by_state = {state: [trial for trial in known if trial.state == state] for state in TrialState}
        complete, failed = by_state[TrialState.COMPLETE], by_state[TrialState.FAIL]
        best = max(complete, key=lambda trial: (trial.value, -trial.number), default=None)
        self.taken = len(known)
        return Standing(
            len(complete),
            len(by_state[TrialState.PRUNED]),
            len(failed),
            len(by_state[TrialState.RUNNING]),
            _seconds(known),
            None if best is None else best.params,
            None if best is None else best.value,
            {} if best is None else _scores(_found(best)),
            [_found(trial).get("reason", "") for trial in failed],
            _hopeless(known),
        )

    def _check_identity(self, identity: dict[str, Any]) -> None:
        wanted = json.loads(json.dumps(identity))
        found = self._storage.get_study_user_attrs(self._study).get("identity")
        if found is None:
            self._storage.set_study_user_attr(self._study, "identity", wanted)
            return
        for key in wanted:
            if found.get(key) != wanted[key]:
                raise ConfigError(
                    f"the study holds another tuning of {self.name}: its {key} are {found.get(key)}, here they are "
                    f"{wanted[key]}; take another file"
                )


def _lost(trials: list[FrozenTrial], known: list[FrozenTrial]) -> tuple[Point | None, dict[str, Any]]:
    """The first point that was lost and nobody has begun again, and what is known of it by now."""
    left = [
        trial
        for trial in trials
        if trial.user_attrs.get("void") == LOST and all(trial.params != other.params for other in known)
    ]
    if not left:
        return None, {}
    return left[0].params, [_found(trial) for trial in left if trial.params == left[0].params][-1]


def _found(trial: FrozenTrial) -> dict[str, Any]:
    """Scores by seed, seconds, and the reason and kind of a failure, as far as they are known."""
    found: dict[str, Any] = trial.user_attrs.get("found", {})
    return found


def _seconds(known: list[FrozenTrial]) -> float:
    return float(sum(_found(trial).get("seconds", 0.0) for trial in known))


def _hopeless(known: list[FrozenTrial]) -> str:
    """Why not even the defaults can be trained, as of a method that needs another kind of backbone; else empty."""
    first = _found(known[0]) if known else {}
    return str(first["reason"]) if first.get("kind") == ConfigError.__name__ else ""


def _scores(found: dict[str, Any]) -> dict[int, float]:
    return {int(seed): score for seed, score in found.get("scores", {}).items()}


def _propose(known: list[FrozenTrial], space: Space, distributions: Distributions, name: str) -> Point | None:
    """A point nobody has tried: the defaults, then what the sampler says; None if all were tried.

    The seed comes from the number of trials before, so that a tuning that was interrupted goes on as it would have.
    """
    tried = [trial.params for trial in known]
    if space.usual not in tried:
        return dict(space.usual)
    if len(tried) >= space.size:
        return None
    seed = int(random_keys(len(tried), f"tune/{name}", 1)[0] >> 33)
    study = optuna.create_study(direction="maximize", sampler=_sampler(seed))
    study.add_trials([trial for trial in known if trial.state != TrialState.FAIL])
    for _ in range(20):
        point: Point = study.ask(distributions).params
        if point not in tried:
            return point
    # The sampler insists on what is known already.
    for key in random_keys(seed, f"tune/{name}/any", 1_000_000):
        rest, point = int(key), {}
        for setting, values in space.values.items():
            rest, place = divmod(rest, len(values))
            point[setting] = list(values)[place]
        if point not in tried:
            return point
    return None


def _sampler(seed: int) -> TPESampler:
    """Settings together, and with regard to what others are trying; Optuna 4 calls both an experiment."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExperimentalWarning)
        return TPESampler(seed=seed, n_startup_trials=_RANDOM, multivariate=True, constant_liar=True)
