"""Fair tuning: as many trials for every method, chosen by NDCG@20 on validation and nothing else."""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from icpe.data.datasets.catalogue import CATALOGUE
from icpe.errors import ConfigError
from icpe.jobs._space import Space, search_space
from icpe.jobs.workers import Outcome, Workers, forget_data, make_workers, open_training
from icpe.runs.config import RunConfig
from icpe.runs.presets import SECTIONS, Cells

if TYPE_CHECKING:
    from icpe.jobs._ledger import Ledger, Running, Standing

_BEAT_EVERY = 60.0  # seconds between signs of life in the database
_LOOP_ONLY = ("seed", "device")  # of [train]: they say where a run happens, not how


@dataclass(frozen=True)
class Progress:
    """A trial has ended.

    Attributes:
        method: its name.
        backbone: its name.
        state: "complete", "pruned" or "failed".
        score: mean NDCG@20 on validation over its seeds; over the first alone if pruned; None if failed.
        reason: why it failed.
        settings: what it tried, by section.
        seconds: of training.
        finished: trials of this cell that have ended.
        best: best score of this cell so far, None if there is none.
        done: trials of all cells that have ended.
        total: trials of all cells.
    """

    method: str
    backbone: str
    state: str
    score: float | None
    reason: str
    settings: dict[str, dict[str, Any]]
    seconds: float
    finished: int
    best: float | None
    done: int
    total: int


@dataclass(frozen=True)
class Tuned:
    """What was found for a method on a backbone.

    Attributes:
        method: its name.
        backbone: its name.
        trials: that have ended, with those pruned and failed.
        pruned: trials stopped after the first seed.
        failed: trials that could not be trained.
        running: trials not ended, on other machines.
        score: best mean NDCG@20 on validation, None if no trial was completed.
        scores: of the best, by seed.
        settings: the best, by section, with those that were fixed.
        seconds: of training in all trials.
        reason: the last failure, where there is no score.
        data: name of the data.
        split: its settings.
        seeds: of each trial.
    """

    method: str
    backbone: str
    trials: int
    pruned: int
    failed: int
    running: int
    score: float | None
    scores: dict[int, float]
    settings: dict[str, dict[str, Any]]
    seconds: float
    reason: str
    data: str
    split: dict[str, Any]
    seeds: list[int]


def tune(
    configs: Sequence[RunConfig],
    storage: Path | str,
    trials: int = 20,
    seeds: Sequence[int] = (100, 101),
    workers: int = 1,
    minutes: float | None = None,
    prune: bool = True,
    on_trial: Callable[[Progress], None] | None = None,
) -> list[Tuned]:
    """Search settings for each configuration, and go on with what the storage holds of it already.

    The first trial takes the defaults, the others are chosen by Optuna's TPE from the values of
    :attr:`icpe.methods.Method.search`, of ``reg`` and of ``train.lr``. No settings are tried twice. The cell with the
    fewest trials is the next, so that budgets are equal at any time.

    Args:
        configs: one per method and backbone; settings they name are fixed.
        storage: a path for a file (SQLite), or the URL of a database.
        trials: for each; those that fail or are pruned count.
        seeds: of each trial; a seed decides the split, the start and all sampling.
        workers: processes that train, with one thread each; 1 trains in this one.
        minutes: begin no further trials of a cell that has trained for so long.
        prune: leave out the other seeds where the first gives less than the median of the trials before.
        on_trial: called when a trial has ended.

    Returns:
        What was found, in the order of the configurations.

    Raises:
        ConfigError: a setting is wrong, Optuna is missing, or the storage holds another tuning.
        DataError: the data cannot be read.
        KeyboardInterrupt: after Ctrl-C; the storage holds all trials that have ended.
    """
    _check(configs, trials, seeds, workers, minutes)
    from icpe.jobs import _ledger  # late: brings Optuna

    with _ledger.quiet(), _ledger.told_in_one_line():
        spaces = [search_space(config) for config in configs]
        for config in configs:
            config.train_settings(config.make_method()).torch_device()
        hashes = [open_training(config, seeds[0])[2] for config in configs]
        if workers > 1:
            forget_data()  # the processes read them themselves
        database = _ledger.open_storage(storage)
        cells = [
            _open_cell(database, config, space, content, seeds)
            for config, space, content in zip(configs, spaces, hashes, strict=True)
        ]
        tuning = _Tuning(cells, trials, list(seeds), minutes, prune, on_trial)
        tuning.run(workers)
        return [_tuned(cell, list(seeds)) for cell in cells]


def as_presets(found: Sequence[Tuned], version: str) -> Cells:
    """What was found as :func:`icpe.runs.presets.update_presets` takes it; cells without a score are left out.

    Args:
        found: what :func:`tune` gives.
        version: of this package, to be written beside the settings.
    """
    cells: Cells = {}
    for one in found:
        if one.score is None:
            continue
        cells.setdefault(one.method, {})[one.backbone] = {
            "valid_ndcg": round(one.score, 6),
            "trials": one.trials,
            "pruned": one.pruned,
            "failed": one.failed,
            "seeds": one.seeds,
            "data": one.data,
            "icpe": version,
            "split": one.split,
            **{section: values for section, values in one.settings.items() if values},
        }
    return cells


@dataclass(frozen=True)
class _Cell:
    config: RunConfig
    space: Space
    ledger: "Ledger"
    method: str
    backbone: str


class _Tuning:
    """The trials that are on their way here, and what comes next."""

    def __init__(
        self,
        cells: list[_Cell],
        trials: int,
        seeds: list[int],
        minutes: float | None,
        prune: bool,
        on_trial: Callable[[Progress], None] | None,
    ) -> None:
        self._cells, self._trials, self._seeds, self._prune, self._on_trial = cells, trials, seeds, prune, on_trial
        self._most_seconds = float("inf") if minutes is None else 60 * minutes
        self._standings = [cell.ledger.standing() for cell in cells]
        self._open = list(range(len(cells)))
        self._running: dict[int, tuple[int, Running]] = {}  # by the trial's id: cell and trial
        self._beaten = time.monotonic()

    def run(self, workers: int) -> None:
        """Until nothing is left to do, or somebody interrupts."""
        crew = make_workers(workers, self._beat)
        try:
            while True:
                while crew.free and self._begin(crew):
                    pass
                if not self._running:
                    return
                for trial, outcome in crew.collect(timeout=_BEAT_EVERY):
                    self._receive(crew, *self._running[trial], outcome)
                self._beat()
        except BaseException:
            # Where this fails, the next to look finds trials whose process is gone.
            with suppress(Exception):
                for cell, running in self._running.values():
                    self._cells[cell].ledger.abandon(running)
            raise
        finally:
            crew.close()

    def _begin(self, crew: Workers[Outcome]) -> bool:
        """Start a trial of the cell with the fewest; False if there is none to start."""
        while self._open:
            cell = min(self._open, key=lambda place: self._cells[place].ledger.taken)
            begun = self._cells[cell].ledger.begin(self._trials, self._most_seconds)
            if begun is not None:
                self._running[begun.id] = (cell, begun)
                self._go_on(crew, cell, begun)
                return True
            self._open.remove(cell)
        return False

    def _go_on(self, crew: Workers[Outcome], cell: int, trial: "Running") -> None:
        """Train with the next seed, or end the trial."""
        ledger, left = self._cells[cell].ledger, [seed for seed in self._seeds if seed not in trial.scores]
        if not left:
            ledger.complete(trial)
            self._end(cell, trial, "complete", sum(trial.scores.values()) / len(trial.scores))
        elif self._prune and trial.scores and ledger.is_worse(trial):
            ledger.prune(trial)
            self._end(cell, trial, "pruned", trial.scores[self._seeds[0]])
        else:
            held = self._cells[cell]
            crew.submit(trial.id, held.space.apply(held.config, trial.point), left[0])

    def _receive(self, crew: Workers[Outcome], cell: int, trial: "Running", outcome: Outcome) -> None:
        ledger = self._cells[cell].ledger
        if outcome.score is None:
            ledger.fail(trial, outcome.reason, outcome.kind, outcome.seconds)
            trial.seconds += outcome.seconds
            self._end(cell, trial, "failed", None, outcome.reason)
            return
        seed = next(seed for seed in self._seeds if seed not in trial.scores)
        ledger.score(trial, seed, outcome.score, outcome.seconds)
        self._go_on(crew, cell, trial)

    def _end(self, cell: int, trial: "Running", state: str, score: float | None, reason: str = "") -> None:
        del self._running[trial.id]
        held = self._cells[cell]
        self._standings[cell] = held.ledger.standing()
        if self._on_trial is None:
            return
        standing = self._standings[cell]
        total = sum(
            max(self._trials, one.ledger.taken) if place in self._open else one.ledger.taken
            for place, one in enumerate(self._cells)
        )
        self._on_trial(
            Progress(
                held.method,
                held.backbone,
                state,
                score,
                reason,
                held.space.settings(trial.point),
                trial.seconds,
                standing.finished,
                standing.score,
                sum(one.finished for one in self._standings),
                total,
            )
        )

    def _beat(self) -> None:
        if time.monotonic() - self._beaten > _BEAT_EVERY:
            self._beaten = time.monotonic()
            for cell, running in self._running.values():
                self._cells[cell].ledger.beat(running)


def _check(
    configs: Sequence[RunConfig], trials: int, seeds: Sequence[int], workers: int, minutes: float | None
) -> None:
    for name, value in (("trials", trials), ("workers", workers)):
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise ConfigError(f"{name} is {value!r}; expected a whole number from 1 up")
    if not seeds or len(set(seeds)) < len(seeds) or not all(isinstance(seed, int) and seed >= 0 for seed in seeds):
        raise ConfigError(f"seeds are {list(seeds)!r}; expected different whole numbers from 0 up, such as 100,101")
    if minutes is not None and not minutes > 0:
        raise ConfigError(f"minutes is {minutes!r}; expected a number above 0")
    named = [(config.method.get("name", "normal"), config.backbone.get("name", "mf")) for config in configs]
    for method, backbone in named:
        if named.count((method, backbone)) > 1:
            raise ConfigError(f"{method} on {backbone} is there twice; each can be tuned once at a time")
    if not named:
        raise ConfigError("nothing to tune: name a method")


def _open_cell(database: Any, config: RunConfig, space: Space, content: str, seeds: Sequence[int]) -> _Cell:
    from icpe.jobs._ledger import Ledger

    method, backbone = config.method.get("name", "normal"), config.backbone.get("name", "mf")
    name = f"{_data_name(config)}/{method}/{backbone}"
    identity = {"data": content, "split": config.split, "settings": _fixed(config)}
    ledger = Ledger(database, name, space, seeds, identity)
    return _Cell(config, space, ledger, method, backbone)


def _fixed(config: RunConfig) -> dict[str, dict[str, Any]]:
    """Settings that all trials share, without names and what only says where a run happens."""
    config = config.expanded()
    return {
        section: {
            key: value for key, value in getattr(config, section).items() if key not in ("name", "preset", *_LOOP_ONLY)
        }
        for section in SECTIONS
    }


def _data_name(config: RunConfig) -> str:
    source = str(config.data.get("source") or config.data.get("train"))
    return source if source in CATALOGUE else Path(source).name


def _tuned(cell: _Cell, seeds: list[int]) -> Tuned:
    standing: Standing = cell.ledger.standing()
    settings = _fixed(cell.config)
    if standing.best is not None:
        for section, found in cell.space.settings(standing.best).items():
            settings[section].update(found)
    reason = standing.hopeless or (standing.reasons[-1] if standing.reasons and standing.best is None else "")
    return Tuned(
        cell.method,
        cell.backbone,
        standing.finished,
        standing.pruned,
        standing.failed,
        standing.running,
        standing.score,
        standing.scores,
        settings if standing.best is not None else {},
        standing.seconds,
        reason,
        _data_name(cell.config),
        {"kind": "unbiased", **cell.config.split} if "train" not in cell.config.data else {"kind": "given"},
        seeds,
    )
