"""Jobs, what becomes of them, and the loop that runs them on an engine."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

Value = TypeVar("Value")
WORKER_DIED = "WorkerDied"


@dataclass(frozen=True)
class Job:
    """One call of the function that all jobs share.

    Attributes:
        key: identifies the job in its result.
        arguments: what the function is called with. They must be picklable.
        group: jobs of one group need about the same amount of memory.
    """

    key: Any
    arguments: tuple[Any, ...]
    group: str = ""


@dataclass(frozen=True)
class JobResult(Generic[Value]):
    """What became of a job.

    Attributes:
        key: of the job.
        seconds: duration of the call.
        value: what the function returned, or None if the job failed.
        reason: why the job failed, in one line; empty if it succeeded.
        error: class name of the exception that the function raised; ``WorkerDied`` if its process ended abruptly.
    """

    key: Any
    seconds: float
    value: Value | None = None
    reason: str = ""
    error: str = ""

    @property
    def failed(self) -> bool:
        """Whether the job failed."""
        return bool(self.error)


class Engine(Protocol[Value]):
    """A way of executing jobs."""

    @property
    def free(self) -> int:
        """Number of jobs that the engine can start now."""

    def reason_to_wait(self, job: Job) -> str:
        """Return why the job should not start yet, although a worker is free. Empty if it may start."""

    def submit(self, job: Job) -> None:
        """Start a job. Call it only while :attr:`free` is positive."""

    def wait(self) -> list[JobResult[Value]]:
        """Wait a moment for running jobs and return the results that have arrived, possibly none."""

    def close(self) -> None:
        """Stop all workers at once, including those that are busy."""


class InProcess(Generic[Value]):
    """An engine that runs one job at a time in this process."""

    def __init__(self, function: Callable[..., Value]) -> None:
        self._function = function
        self._job: Job | None = None

    @property
    def free(self) -> int:
        """One, until a job is submitted."""
        return 1 if self._job is None else 0

    def reason_to_wait(self, job: Job) -> str:
        """Return an empty text: a single job never waits for others."""
        return ""

    def submit(self, job: Job) -> None:
        """Keep the job; :meth:`wait` runs it."""
        self._job = job

    def wait(self) -> list[JobResult[Value]]:
        """Run the submitted job and return its result."""
        assert self._job is not None
        job, self._job = self._job, None
        return [call(self._function, job)]

    def close(self) -> None:
        """Do nothing: no worker exists."""


def run_jobs(
    next_job: Callable[[], Job | None],
    function: Callable[..., Value],
    on_done: Callable[[JobResult[Value]], None],
    *,
    workers: int = 1,
    on_start: Callable[[Job], None] | None = None,
    on_wait: Callable[[Job, str], None] | None = None,
) -> None:
    """Run jobs until none is left. A job that fails or whose worker dies does not stop the others.

    All callbacks are called in this process and in the calling thread. Ctrl-C and exceptions of callbacks stop all
    workers before they reach the caller.

    Args:
        next_job: returns the next job, or None if there is none at the moment. It is asked again after every result.
        function: what each job calls. Worker processes import it, so it must be defined at the top of a module.
        on_done: receives every result.
        workers: number of worker processes, each with one thread; 1 runs the jobs in this process.
        on_start: receives every job when it starts.
        on_wait: receives a job that has to wait although a worker is free, and the reason.
    """
    engine = _make_engine(function, workers)
    held: Job | None = None  # a job that waits for memory
    running, told = 0, ""
    try:
        while True:
            while engine.free:
                held = held or next_job()
                if held is None:
                    break
                reason = engine.reason_to_wait(held)
                if reason:
                    if on_wait is not None and reason != told:
                        on_wait(held, reason)
                    told = reason
                    break
                if on_start is not None:
                    on_start(held)
                engine.submit(held)
                held, told, running = None, "", running + 1
            if not running:
                return
            for result in engine.wait():
                running -= 1
                on_done(result)
    finally:
        engine.close()


def call(function: Callable[..., Value], job: Job) -> JobResult[Value]:
    """Return the result of a job that is run here and now. Exceptions become failures, except an interruption."""
    started = time.perf_counter()
    try:
        value = function(*job.arguments)
    except Exception as error:  # one bad job must not end a night of them
        reason = " ".join((str(error) or repr(error)).split())
        return JobResult(job.key, time.perf_counter() - started, None, reason, type(error).__name__)
    return JobResult(job.key, time.perf_counter() - started, value)


def _make_engine(function: Callable[..., Value], workers: int) -> Engine[Value]:
    if workers == 1:
        return InProcess(function)
    from icpe.jobs.processes import WorkerProcesses

    return WorkerProcesses(function, workers)
