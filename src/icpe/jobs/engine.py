"""Jobs, what becomes of them, and the loop that runs them on an engine."""

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from icpe.errors import ConfigError, DataError, IcpeError
from icpe.jobs.cluster import RayCluster

Value = TypeVar("Value")
Workers = int | RayCluster
WORKER_DIED = "WorkerDied"


@dataclass(frozen=True)
class Input:
    """Something that jobs read from the disk of this machine, and that other machines need a copy of.

    Attributes:
        name: the keyword argument of the function that receives the copy.
        key: inputs with the same key have the same content, which travels once.
        pack: called on this machine; returns what travels.
        unpack: called in each process that needs it with what has travelled; returns the argument.
    """

    name: str
    key: str
    pack: Callable[[], Any]
    unpack: Callable[[Any], Any]


@dataclass(frozen=True)
class Job:
    """One call of the function that all jobs share.

    Attributes:
        key: identifies the job in its result.
        arguments: what the function is called with. They must be picklable.
        group: jobs of one group need about the same amount of memory.
        folder: the folder that the function reads and writes, its first argument; None for a function without one. An
            engine on other machines gives the function a copy, and brings all files of the copy back.
        inputs: what the function reads elsewhere on this disk. Engines on this machine leave these arguments out.
    """

    key: Any
    arguments: tuple[Any, ...]
    group: str = ""
    folder: Path | None = None
    inputs: tuple[Input, ...] = ()


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

    def as_error(self, prefix: str = "") -> IcpeError:
        """Return the failure as one of our errors, of the class that the function raised if it is one of ours."""
        kind = {"ConfigError": ConfigError, "DataError": DataError}.get(self.error, IcpeError)
        return kind(f"{prefix}{self.reason}")


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
    workers: Workers = 1,
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
        workers: number of worker processes, each with one thread; 1 runs the jobs in this process; a
            :class:`RayCluster` runs them on other machines.
        on_start: receives every job when it starts.
        on_wait: receives a job that has to wait although a worker is free, and the reason.
    """
    run_on(make_engine(function, workers), next_job, on_done, on_start, on_wait)


def run_on(
    engine: Engine[Value],
    next_job: Callable[[], Job | None],
    on_done: Callable[[JobResult[Value]], None],
    on_start: Callable[[Job], None] | None = None,
    on_wait: Callable[[Job, str], None] | None = None,
) -> None:
    """Run jobs as :func:`run_jobs` does, on an engine, which is closed at the end."""
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


def run_in_order(jobs: Iterable[Job], function: Callable[..., Value], workers: Workers) -> Iterator[Value]:
    """Yield the values of jobs in the order of the jobs. Few of them are in memory at a time.

    Raises:
        IcpeError: a job failed.
    """
    engine, left = make_engine(function, workers), iter(jobs)
    order: list[Any] = []  # keys of the jobs whose values are to come
    ready: dict[Any, Value] = {}
    try:
        while True:
            # Values that wait for an earlier one count too: a slow job must not fill the memory.
            while engine.free > len(ready) and (job := next(left, None)) is not None:
                engine.submit(job)
                order.append(job.key)
            if not order:
                return
            for result in engine.wait():
                if result.failed:
                    raise result.as_error()
                ready[result.key] = result.value  # type: ignore[assignment]
            while order and order[0] in ready:
                yield ready.pop(order.pop(0))
    finally:
        engine.close()


def call(function: Callable[..., Value], job: Job, **inputs: Any) -> JobResult[Value]:
    """Return the result of a job that is run here and now. Exceptions become failures, except an interruption."""
    started = time.perf_counter()
    try:
        value = function(*(() if job.folder is None else (job.folder,)), *job.arguments, **inputs)
    except Exception as error:  # one bad job must not end a night of them
        reason = " ".join((str(error) or repr(error)).split())
        return JobResult(job.key, time.perf_counter() - started, None, reason, type(error).__name__)
    return JobResult(job.key, time.perf_counter() - started, value)


def check_workers(workers: Workers) -> None:
    """Refuse what is neither a number of workers nor a cluster.

    Raises:
        ConfigError: the value is wrong.
    """
    if isinstance(workers, RayCluster):
        return
    if not isinstance(workers, int) or isinstance(workers, bool) or workers < 1:
        raise ConfigError(f"workers is {workers!r}; expected a whole number from 1 up")


def make_engine(function: Callable[..., Value], workers: Workers) -> Engine[Value]:
    """Return the engine for a number of workers or a cluster."""
    if isinstance(workers, RayCluster):
        from icpe.jobs.ray import RayTasks

        return RayTasks(function, workers)
    if workers == 1:
        return InProcess(function)
    from icpe.jobs.processes import WorkerProcesses

    return WorkerProcesses(function, workers)
