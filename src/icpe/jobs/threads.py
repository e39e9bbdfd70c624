"""The engine whose jobs run in threads of this process and leave the hard work to a cluster."""

from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any, Generic, TypeVar

from icpe.jobs.engine import Job, JobResult, call
from icpe.jobs.ray import RayTasks

Value = TypeVar("Value")

_LOOK_EVERY = 0.5  # seconds
_MOST = 1000  # threads, most of which only wait


class ThreadsBeside(Generic[Value]):
    """An engine with a thread for each job. A job calls :meth:`RayTasks.execute` for what other machines should do.

    It serves jobs that need something of this machine, such as a database, between their tasks.

    Args:
        function: what every job calls.
        tasks: the engine on the cluster, which is closed with this one.
    """

    def __init__(self, function: Callable[..., Value], tasks: RayTasks[Any]) -> None:
        self._function, self._tasks = function, tasks
        self._pool = ThreadPoolExecutor(_MOST)
        self._running: set[Future[JobResult[Value]]] = set()

    @property
    def free(self) -> int:
        """Number of jobs that can start now."""
        return max(0, self._tasks.cores - len(self._running))

    def reason_to_wait(self, job: Job) -> str:
        """Return an empty text: the cluster decides when tasks start."""
        return ""

    def submit(self, job: Job) -> None:
        """Start a thread for the job."""
        self._running.add(self._pool.submit(call, self._function, job))

    def wait(self) -> list[JobResult[Value]]:
        """Wait up to half a second for a job to end, and return the results of those that have ended."""
        done, self._running = wait(self._running, _LOOK_EVERY, FIRST_COMPLETED)
        return [future.result() for future in done]

    def close(self) -> None:
        """Stop the tasks, which interrupts the threads, and wait for the threads."""
        self._tasks.close()
        self._pool.shutdown(wait=True, cancel_futures=True)
