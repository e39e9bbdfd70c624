"""Many runs side by side: cells × seeds in one folder, which goes on from whatever it holds."""

import shutil
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

from icpe.compare._files import read_grid, write_all, write_so_far
from icpe.compare._run import Ended, effective, refuse_other, run_once
from icpe.compare._shared import Handing, alone_in, hand_out, refuse_other_data
from icpe.compare._state import (
    Cell,
    Failure,
    Grid,
    dial_values,
    is_finished,
    read_note,
    read_row,
    results_frame,
    run_folder,
)
from icpe.errors import ConfigError
from icpe.jobs.memory import MemoryRule
from icpe.jobs.workers import Here, Processes, Workers
from icpe.runs.run import CHECKPOINT

__all__ = ["Cell", "Event", "Failure", "Grid", "open_grid", "run_folder", "run_grid"]

_LOOK_EVERY = 5.0  # seconds between looks at what is on its way
_WRITE_EVERY = 10.0  # seconds between tables while runs end


@dataclass(frozen=True)
class Event:
    """Something happened in a grid.

    Attributes:
        kind: ``found`` (a run was there already), ``started``, ``finished``, ``failed``, ``elsewhere`` (another
            machine has it), or ``waiting`` (a run would not fit into memory now).
        label: of the cell.
        backbone: of the cell.
        seed: of the run.
        row: what ``Grid.results`` has of a run that was found or finished.
        reason: of a failure or of waiting.
        done: runs that have ended, well or not.
        total: runs of the grid.
        seconds_left: how long the rest will take, None where nothing is known yet.
    """

    kind: Literal["found", "started", "finished", "failed", "elsewhere", "waiting"]
    label: str
    backbone: str
    seed: int
    row: dict[str, Any] | None = None
    reason: str = ""
    done: int = 0
    total: int = 0
    seconds_left: float | None = None


def run_grid(
    cells: Sequence[Cell],
    seeds: Sequence[int],
    folder: Path,
    *,
    workers: int = 1,
    storage: str | None = None,
    on_event: Callable[[Event], None] | None = None,
    keep_checkpoints: bool = False,
    subject: str | None = "icpe",
    tables: bool = True,
) -> Grid:
    """Train every cell with every seed, and give all that came out; runs that are there already are not done again.

    A run is a folder of :class:`icpe.runs.run.Run` below ``folder/runs``. One that was interrupted goes on; one that
    fails is kept with its reason, does not stop the rest, and is tried again at the next call. Calls with other cells
    may share the folder. Tables are written beside the runs.

    Args:
        cells: what to compare.
        seeds: of each; a seed decides the split, the start and all sampling.
        folder: where everything goes.
        workers: processes that train, with one thread each, as many as fit into memory; 1 trains in this one.
        storage: URL of a database through which several machines share the runs.
        on_event: called whenever something happens.
        keep_checkpoints: of finished runs too, which take most of the space.
        subject: label or method that the tables test against the others.
        tables: whether to write tables beside the runs; without, several grids can share a folder of runs.

    Raises:
        ConfigError: a setting is wrong, a run of other settings is in the way, or somebody else works in the folder.
        DataError: the data cannot be read, or are not those of the runs that are there.
        KeyboardInterrupt: after Ctrl-C; all that has ended is kept, the rest goes on from its checkpoints.
    """
    cells, seeds, folder = list(cells), list(seeds), Path(folder)
    _check(cells, seeds, workers)
    for cell in cells:
        for seed in seeds:
            refuse_other(cell.run_config(seed), run_folder(folder, cell, seed))
    with alone_in(folder, storage is not None), hand_out(storage, folder) as handing:
        working = _Working(cells, seeds, folder, handing, on_event, keep_checkpoints, subject, tables)
        working.look(workers)
        try:
            working.run(workers)
        except BaseException:
            # A database that is gone must not hide why we stop; others will see that our process is no more.
            with suppress(Exception):
                handing.give_back()
            if tables:
                write_so_far(working.grid(), subject)
            raise
        grid = working.grid()
        if tables:
            write_all(grid, subject)
    return grid


def open_grid(folder: Path) -> Grid:
    """The grid of a folder with the runs that are there, e.g. after those of other machines were copied into it.

    Raises:
        DataError: the folder holds no grid.
    """
    return read_grid(Path(folder))


class _Working:
    """What is left to do, what is on its way, and what has come out."""

    def __init__(
        self,
        cells: list[Cell],
        seeds: list[int],
        folder: Path,
        handing: Handing,
        on_event: Callable[[Event], None] | None,
        keep_checkpoints: bool,
        subject: str | None,
        tables: bool,
    ) -> None:
        self._tables = tables
        self._cells, self._seeds, self._folder = cells, seeds, folder
        self._handing, self._on_event, self._keep, self._subject = handing, on_event, keep_checkpoints, subject
        # All cells of a seed before the next seed: what is there can be compared at any time.
        self._runs = [(cell, seed) for seed in seeds for cell in cells]
        self._todo: list[int] = []
        self._running: list[int] = []
        self._rows: dict[int, dict[str, Any]] = {}
        self._failures: dict[int, Failure] = {}
        self._elsewhere = 0
        self._workers, self._waited, self._written = 1, "", 0.0
        self._memory = MemoryRule({})

    def look(self, workers: int) -> None:
        """See what is there already, and whether the rest can be begun."""
        self._workers = workers
        for place, (cell, _) in enumerate(self._runs):
            if is_finished(self._place(place), cell):
                self._receive(place, "found")
                self._handing.done(self._name(place))
            else:
                self._todo.append(place)
        if self._todo:
            refuse_other_data(self._runs[self._todo[0]], self._folder, [self._runs[place] for place in self._rows])

    def run(self, workers: int) -> None:
        """Until nothing is left to do, or somebody interrupts."""
        if not self._todo:
            return
        crew = self._crew(workers)
        try:
            while True:
                while self._todo and crew.free and self._may_begin(crew):
                    self._begin(crew, self._todo.pop(0))
                if not (self._running or self._todo):
                    return
                for place, ended in crew.collect(_LOOK_EVERY):
                    self._running.remove(place)
                    self._end(place, ended)
                self._handing.beat()
        finally:
            crew.close()

    def grid(self) -> Grid:
        """What has come out so far."""
        order = sorted(self._rows, key=lambda place: (self._cells.index(self._runs[place][0]), self._runs[place][1]))
        failures = [self._failures[place] for place in sorted(self._failures)]
        rows = results_frame([self._rows[place] for place in order])
        return Grid(self._cells, self._seeds, self._folder, rows, failures)

    def _crew(self, workers: int) -> Workers[Ended]:
        if workers == 1:
            return Here(partial(run_once, on_step=self._handing.beat), lambda: None)
        return Processes(workers, run_once, lambda seconds, reason: Ended(seconds, None, reason))

    def _may_begin(self, crew: Workers[Ended]) -> bool:
        if not isinstance(crew, Processes):
            return True
        idle, busy = crew.processes()
        running = [(self._runs[place][0].backbone, process) for place, process in busy.items()]
        objection = self._memory.objection(self._runs[self._todo[0]][0].backbone, running, idle)
        if objection and objection != self._waited:
            self._tell("waiting", self._todo[0], reason=objection)
        self._waited = objection
        return not objection

    def _begin(self, crew: Workers[Ended], place: int) -> None:
        cell, seed = self._runs[place]
        if is_finished(self._place(place), cell):  # by another machine, in a folder they share
            self._receive(place, "found")
        elif not self._handing.claim(self._name(place)):
            self._elsewhere += 1
            self._tell("elsewhere", place)
        else:
            self._running.append(place)
            self._tell("started", place)
            crew.submit(place, cell.run_config(seed), self._place(place), dial_values(cell), self._keep)

    def _end(self, place: int, ended: Ended) -> None:
        cell, seed = self._runs[place]
        self._memory.note(cell.backbone, ended.peak)
        if ended.reason:
            self._failures[place] = Failure(cell.label, cell.backbone, seed, ended.reason)
            self._handing.failed(self._name(place), ended.reason)
            self._tell("failed", place, reason=ended.reason)
        else:
            self._handing.done(self._name(place))
            self._receive(place, "finished")
        if self._tables and time.monotonic() - self._written > _WRITE_EVERY:
            write_so_far(self.grid(), self._subject)
            self._written = time.monotonic()

    def _receive(self, place: int, how: Literal["found", "finished"]) -> None:
        cell, seed = self._runs[place]
        folder = self._place(place)
        self._rows[place] = read_row(folder, cell, seed)
        self._memory.note(cell.backbone, read_note(folder).get("peak"))
        if not self._keep:  # it may have been killed before it could do that
            shutil.rmtree(folder / CHECKPOINT, ignore_errors=True)
        self._tell(how, place, self._rows[place])

    def _place(self, place: int) -> Path:
        return run_folder(self._folder, *self._runs[place])

    def _name(self, place: int) -> str:
        return self._place(place).name

    def _tell(self, kind: Any, place: int, row: dict[str, Any] | None = None, reason: str = "") -> None:
        if self._on_event is not None:
            cell, seed = self._runs[place]
            done = len(self._rows) + len(self._failures) + self._elsewhere
            left = self._seconds_left()
            self._on_event(Event(kind, cell.label, cell.backbone, seed, row, reason, done, len(self._runs), left))

    def _seconds_left(self) -> float | None:
        """As long as runs of the same cell took, else as long as all did."""
        known = [(self._runs[place][0].label, row["seconds"]) for place, row in self._rows.items() if row["seconds"]]
        if not known:
            return None
        usual = sum(seconds for _, seconds in known) / len(known)
        total = 0.0
        for place in [*self._todo, *self._running]:
            own = [seconds for label, seconds in known if label == self._runs[place][0].label]
            total += sum(own) / len(own) if own else usual
        return total / self._workers


def _check(cells: list[Cell], seeds: list[int], workers: int) -> None:
    if not cells:
        raise ConfigError("nothing to compare: name a method")
    if not isinstance(workers, int) or isinstance(workers, bool) or workers < 1:
        raise ConfigError(f"workers is {workers!r}; expected a whole number from 1 up")
    if not seeds or len(set(seeds)) < len(seeds) or not all(isinstance(seed, int) and seed >= 0 for seed in seeds):
        raise ConfigError(f"seeds are {seeds!r}; expected different whole numbers from 0 up, such as 0-4")
    folders = Counter(run_folder(Path(), cell, 0) for cell in cells)
    for cell in cells:
        if folders[run_folder(Path(), cell, 0)] > 1:
            raise ConfigError(f"{cell.label!r} on {cell.backbone} is there twice; cells need names of their own")
        if "train" in cell.config.data and "test" not in cell.config.data:
            raise ConfigError("a comparison is made on test data, and there are none: give --test FILE")
        effective(cell.config)  # mistakes in settings are told before anything is read
