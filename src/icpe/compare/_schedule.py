"""The schedule of a comparison: which runs are left, running, finished and failed."""

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from icpe.compare._checks import refuse_other_data
from icpe.compare._files import write_tables
from icpe.compare._run import run_once
from icpe.compare._state import Cell, Failure, Grid, dial_values, is_finished, read_row, results_frame, run_folder
from icpe.jobs import Job, JobResult, Workers, run_jobs
from icpe.jobs.travel import data_input
from icpe.runs.folder import CHECKPOINT

_WRITE_EVERY = 10.0  # seconds between two versions of the tables while runs end


@dataclass(frozen=True)
class Event:
    """Progress of a comparison.

    Attributes:
        kind: ``found`` (the run was finished before), ``started``, ``finished``, ``failed``, or ``waiting`` (the run
            does not fit into memory now).
        label: of the cell.
        backbone: of the cell.
        seed: of the run.
        row: the row of ``Grid.results`` for a run that was found or has finished.
        reason: why the run failed or waits.
        done: number of runs that have finished or failed.
        total: number of runs in the comparison.
        seconds_left: estimated seconds until the comparison ends; None before a run has finished.
    """

    kind: Literal["found", "started", "finished", "failed", "waiting"]
    label: str
    backbone: str
    seed: int
    row: dict[str, Any] | None = None
    reason: str = ""
    done: int = 0
    total: int = 0
    seconds_left: float | None = None


class Schedule:
    """Runs of a comparison and their states.

    Args:
        cells: what is compared.
        seeds: each cell is trained with.
        folder: of the comparison.
        on_event: receives all progress.
        keep_checkpoints: whether to keep the checkpoints of finished runs.
        workers: number of processes that train, or a cluster.
    """

    def __init__(
        self,
        cells: list[Cell],
        seeds: list[int],
        folder: Path,
        on_event: Callable[[Event], None] | None,
        keep_checkpoints: bool,
        workers: Workers,
    ) -> None:
        self._cells, self._seeds, self._folder = cells, seeds, folder
        self._on_event, self._keep, self._workers = on_event, keep_checkpoints, workers
        # All cells of a seed come before the next seed, so that what has finished can be compared at any time.
        self._runs = [(cell, seed) for seed in seeds for cell in cells]
        self._left: list[int] = []
        self._running: list[int] = []
        self._rows: dict[int, dict[str, Any]] = {}
        self._failures: dict[int, Failure] = {}
        self._written = 0.0

    def find_finished(self) -> None:
        """Take the runs that are finished in the folder, and check the data if some runs are left.

        Raises:
            DataError: the data cannot be read or are not those of the finished runs.
        """
        for run, (cell, _) in enumerate(self._runs):
            if is_finished(self._run_folder(run), cell):
                self._finish(run, "found")
            else:
                self._left.append(run)
        if self._left:
            refuse_other_data(self._runs[self._left[0]], self._folder, [self._runs[run] for run in self._rows])

    def execute(self, subject: str | None, tables: bool) -> None:
        """Train the runs that are left.

        Args:
            subject: label or method that the tables test against the others.
            tables: whether to write tables while runs end.
        """

        def done(result: JobResult[None]) -> None:
            self._end(result)
            if tables and time.monotonic() - self._written > _WRITE_EVERY:
                write_tables(self.grid(), subject)
                self._written = time.monotonic()

        run_jobs(
            self._next_job,
            run_once,
            done,
            workers=self._workers,
            on_start=self._start,
            on_wait=lambda job, reason: self._report("waiting", job.key, reason=reason),
        )

    def grid(self) -> Grid:
        """Return what has come out so far."""
        order = sorted(self._rows, key=lambda run: (self._cells.index(self._runs[run][0]), self._runs[run][1]))
        failures = [self._failures[run] for run in sorted(self._failures)]
        rows = results_frame([self._rows[run] for run in order])
        return Grid(self._cells, self._seeds, self._folder, rows, failures)

    def _next_job(self) -> Job | None:
        if not self._left:
            return None
        run = self._left.pop(0)
        cell, seed = self._runs[run]
        config = cell.run_config(seed).portable()
        arguments = (config, dial_values(cell), self._keep)
        return Job(run, arguments, cell.backbone, self._run_folder(run), (data_input(config),))

    def _start(self, job: Job) -> None:
        self._running.append(job.key)
        self._report("started", job.key)

    def _end(self, result: JobResult[None]) -> None:
        run = result.key
        self._running.remove(run)
        if result.failed:
            cell, seed = self._runs[run]
            self._failures[run] = Failure(cell.label, cell.backbone, seed, result.reason)
            self._report("failed", run, reason=result.reason)
        else:
            self._finish(run, "finished")

    def _finish(self, run: int, kind: Literal["found", "finished"]) -> None:
        cell, seed = self._runs[run]
        folder = self._run_folder(run)
        self._rows[run] = read_row(folder, cell, seed)
        if not self._keep:  # the run may have been killed before it could remove its checkpoint
            shutil.rmtree(folder / CHECKPOINT, ignore_errors=True)
        self._report(kind, run, self._rows[run])

    def _run_folder(self, run: int) -> Path:
        return run_folder(self._folder, *self._runs[run])

    def _report(self, kind: Any, run: int, row: dict[str, Any] | None = None, reason: str = "") -> None:
        if self._on_event is not None:
            cell, seed = self._runs[run]
            done = len(self._rows) + len(self._failures)
            left = self._seconds_left()
            self._on_event(Event(kind, cell.label, cell.backbone, seed, row, reason, done, len(self._runs), left))

    def _seconds_left(self) -> float | None:
        """Estimate by the mean duration of the cell's other runs, or of all runs where it has none."""
        known = [(self._runs[run][0].label, row["seconds"]) for run, row in self._rows.items() if row["seconds"]]
        if not known:
            return None
        overall = sum(seconds for _, seconds in known) / len(known)
        total = 0.0
        for run in [*self._left, *self._running]:
            own = [seconds for label, seconds in known if label == self._runs[run][0].label]
            total += sum(own) / len(own) if own else overall
        return total / (self._workers if isinstance(self._workers, int) else max(1, len(self._running)))
