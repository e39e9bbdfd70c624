"""The engine that runs jobs as tasks of Ray, on the machines of a cluster.

Nothing but Ray connects the machines. The files of a job's folder travel with it and come back with its result; what
all jobs read, such as the data, is put into Ray's object store once. A task whose process or machine is lost starts
again elsewhere, with the files it was sent.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Generic, TypeVar

from icpe.errors import ConfigError
from icpe.files import read_folder, write_folder
from icpe.jobs.cluster import RayCluster
from icpe.jobs.engine import WORKER_DIED, Input, Job, JobResult, call
from icpe.jobs.memory import MemoryGuard, peak_memory
from icpe.jobs.processes import THREADS

Value = TypeVar("Value")
RETRIES = 3
_VERSION = version("icpe")
_LOOK_EVERY = 0.5  # seconds between looks at the tasks
_STOP = 10.0  # seconds that cancelled tasks get to stop


@dataclass(frozen=True)
class _Task(Generic[Value]):
    """A job as it travels."""

    version: str
    function: Callable[..., Value]
    job: Job
    files: dict[str, bytes]
    inputs: tuple[tuple[str, Any, Callable[[Any], Any]], ...]


@dataclass(frozen=True)
class _Answer(Generic[Value]):
    """What comes back."""

    result: JobResult[Value]
    files: dict[str, bytes]
    peak: int


class RayTasks(Generic[Value]):
    """An engine whose jobs are tasks of Ray, with one core and one thread each and as much memory as jobs need.

    Args:
        function: what every job calls.
        cluster: where the tasks run.
        memory: estimates what a job needs.
    """

    def __init__(self, function: Callable[..., Value], cluster: RayCluster, memory: MemoryGuard | None = None) -> None:
        self._ray, self._function, self._most = cluster.connect(), function, cluster.at_most
        self._memory = memory or MemoryGuard()
        environment = {"env_vars": dict.fromkeys(THREADS, "1")}
        self._run = self._ray.remote(num_cpus=1, max_retries=RETRIES, runtime_env=environment)(_run)
        self._running: dict[Any, tuple[Job, float]] = {}
        self._inputs: dict[str, Any] = {}  # key → place in the object store
        self._packing = threading.Lock()
        self._cancelled = False

    @property
    def cores(self) -> int:
        """Number of jobs that the cluster can run at a time. Machines may join and leave."""
        cores = max(1, int(self._ray.cluster_resources().get("CPU", 0)))
        return cores if self._most is None else min(cores, self._most)

    @property
    def free(self) -> int:
        """Number of jobs that can start now."""
        return max(0, self.cores - len(self._running))

    def reason_to_wait(self, job: Job) -> str:
        """Return an empty text: Ray starts each task on a machine that has the memory for it."""
        return ""

    def submit(self, job: Job) -> None:
        """Send the job to the cluster."""
        self._running[self._send(job)] = (job, time.perf_counter())

    def wait(self) -> list[JobResult[Value]]:
        """Wait up to half a second for a job to end, and return the results of those that have ended."""
        done, _ = self._ray.wait(list(self._running), num_returns=1, timeout=_LOOK_EVERY)
        return [self._collect(task) for task in done]

    def execute(self, job: Job) -> JobResult[Value]:
        """Run a job and wait for its result. Several threads may call this method at the same time.

        Raises:
            KeyboardInterrupt: the engine was closed in the meantime.
        """
        if self._cancelled:
            raise KeyboardInterrupt
        task = self._send(job)
        self._running[task] = (job, time.perf_counter())
        self._ray.wait([task])
        result = self._collect(task)
        if self._cancelled:
            raise KeyboardInterrupt
        return result

    def close(self) -> None:
        """Stop all tasks, also those that are running. The connection stays for the next engine."""
        self._cancelled = True
        tasks = list(self._running)
        for task in tasks:
            self._ray.cancel(task, force=True)
        if tasks:
            self._ray.wait(tasks, num_returns=len(tasks), timeout=_STOP)
        self._inputs = {}

    def _send(self, job: Job) -> Any:
        inputs = tuple((one.name, self._put(one), one.unpack) for one in job.inputs)
        files = {} if job.folder is None else read_folder(job.folder)
        # The functions that pack inputs stay here.
        task = _Task(_VERSION, self._function, replace(job, inputs=()), files, inputs)
        return self._run.options(memory=self._need(job.group)).remote(task)

    def _put(self, one: Input) -> Any:
        with self._packing:
            if one.key not in self._inputs:
                self._inputs[one.key] = self._ray.put(one.pack())
            return self._inputs[one.key]

    def _need(self, group: str) -> int:
        """Return the bytes to reserve for a job. One that fits nowhere gets the largest machine for itself."""
        machines = [node["Resources"].get("memory", 0) for node in self._ray.nodes() if node["Alive"]]
        return int(min(self._memory.need(group), max(machines, default=0)))

    def _collect(self, task: Any) -> JobResult[Value]:
        errors = self._ray.exceptions
        try:
            answer: _Answer[Value] = self._ray.get(task)
        except errors.RayTaskError as error:  # outside of the job's function: the other machine could not even begin
            return self._failed(task, f"{error.cause!r} on another machine", type(error.cause).__name__)
        except errors.RayError as error:
            lines = str(error).strip().splitlines() or [type(error).__name__]
            reason = f"its process or machine was lost {RETRIES + 1} times; Ray says: {lines[0]}"
            return self._failed(task, reason, WORKER_DIED)
        job, _ = self._running.pop(task)
        self._memory.job_ended(job.group, answer.peak)
        if job.folder is not None and answer.files:
            write_folder(job.folder, answer.files)
        return answer.result

    def _failed(self, task: Any, reason: str, error: str) -> JobResult[Value]:
        job, started = self._running.pop(task)
        return JobResult(job.key, time.perf_counter() - started, None, " ".join(reason.split()), error)


def _run(task: _Task[Value]) -> _Answer[Value]:
    """Run a job on another machine, in a folder of its own."""
    if task.version != _VERSION:
        raise ConfigError(
            f"a machine of the cluster has icpe {_VERSION}, but this one has {task.version}; install the same "
            "version on all machines"
        )

    def function(*arguments: Any) -> Value:
        inputs = {name: _unpacked(place, unpack) for name, place, unpack in task.inputs}
        return task.function(*arguments, **inputs)

    if task.job.folder is None:
        return _Answer(call(function, task.job), {}, peak_memory())
    with TemporaryDirectory(prefix="icpe-") as place:
        copy = Path(place) / task.job.folder.name
        if task.files:
            write_folder(copy, task.files)
        result = call(function, replace(task.job, folder=copy))
        # A message that names a file of the copy should name the file of the original.
        result = replace(result, reason=result.reason.replace(str(copy), str(task.job.folder)))
        return _Answer(result, read_folder(copy), peak_memory())


@lru_cache(maxsize=2)  # a process runs many jobs with the same data
def _unpacked(place: Any, unpack: Callable[[Any], Any]) -> Any:
    import ray

    return unpack(ray.get(place))
