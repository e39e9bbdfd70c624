"""The schedule of a tuning: the method with the fewest trials is always next."""

import uuid
from collections.abc import Callable
from contextlib import suppress

from icpe.errors import IcpeError
from icpe.jobs import WORKER_DIED, Job, JobResult, Workers
from icpe.jobs.engine import run_on
from icpe.tune._cells import TunedCell
from icpe.tune._engine import trial_engine
from icpe.tune.results import TrialEvent
from icpe.tune.storage import JOB
from icpe.tune.trial import TrialResult, result_of


class Schedule:
    """The jobs that run, and the choice of the next one.

    Args:
        cells: what is tuned.
        trials: number of trials of each cell.
        on_trial: called when a trial has ended.
        alone: whether no other process uses the studies.
    """

    def __init__(
        self, cells: list[TunedCell], trials: int, on_trial: Callable[[TrialEvent], None] | None, alone: bool
    ) -> None:
        self._cells, self._trials, self._on_trial, self._alone = cells, trials, on_trial, alone
        self._open = list(range(len(cells)))
        self._running: dict[str, int] = {}  # job → cell

    def run(self, workers: Workers) -> None:
        """Run trials until all budgets are spent."""
        try:
            run_on(trial_engine(workers), self._next_job, self._end)
        except BaseException:
            # If this fails too, the next command or another process notices that the trials have no process.
            with suppress(Exception):
                for cell in self._cells:
                    cell.study.requeue(self._running, all_running=self._alone)
            raise

    def _next_job(self) -> Job | None:
        """Return a job for the cell with the fewest trials, or None if no cell needs a further trial now."""
        if not self._open:
            return None
        started = {place: self._started(place) for place in self._open}
        place = min(self._open, key=lambda place: started[place])
        if started[place] >= self._trials:
            return None
        job = uuid.uuid4().hex
        self._running[job] = place
        return self._cells[place].job(job)

    def _started(self, place: int) -> int:
        """Return the number of trials of a cell, including jobs whose trial is not in the database yet."""
        known = self._cells[place].study.counted()
        others = [trial for trial in known if trial.user_attrs.get(JOB) not in self._running]
        return len(others) + list(self._running.values()).count(place)

    def _end(self, result: JobResult[TrialResult | None]) -> None:
        place = self._running[result.key]
        ended = result.value
        if result.failed:
            dead = None
            if result.error == WORKER_DIED:
                dead = self._cells[place].study.record_death(result.key, result.reason, result.seconds)
            if dead is None:  # not the fault of a trial: the database, or a worker that cannot start
                raise IcpeError(result.reason)
            ended = result_of(dead)
        del self._running[result.key]
        if ended is None:
            if place in self._open:
                self._open.remove(place)
        else:
            self._report(place, ended)

    def _report(self, place: int, ended: TrialResult) -> None:
        if self._on_trial is None:
            return
        summaries = [cell.study.summary() for cell in self._cells]
        totals = [
            max(self._trials, one.ended) if cell in self._open else one.ended for cell, one in enumerate(summaries)
        ]
        cell, summary = self._cells[place], summaries[place]
        method, backbone = cell.names
        self._on_trial(
            TrialEvent(
                method=method,
                backbone=backbone,
                state=ended.state,
                score=ended.score,
                reason=ended.reason,
                settings=cell.task.space.settings(ended.point),
                seconds=ended.seconds,
                ended=summary.ended,
                best=summary.score,
                done=sum(one.ended for one in summaries),
                total=sum(totals),
            )
        )
