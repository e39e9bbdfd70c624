"""The engine that runs jobs in worker processes with one thread each."""

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Generic, TypeVar

import psutil

from icpe.jobs.engine import WORKER_DIED, Job, JobResult, call
from icpe.jobs.memory import MemoryGuard, process_memory

Value = TypeVar("Value")

_REASON = (
    "its worker process ended abruptly; the operating system kills processes when memory runs out, "
    "in which case fewer --workers help"
)
_LOOK_EVERY = 0.5  # seconds between looks at the memory of workers
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


@dataclass
class _Running:
    job: Job
    worker: "_Worker"
    started: float
    peak: int = 0


class WorkerProcesses(Generic[Value]):
    """An engine with a fixed number of worker processes, of which only as many work as fit into memory.

    Workers start when the first job needs them, are reused, and end with this process however it ends.

    Args:
        function: what every job calls.
        workers: number of processes.
        memory: decides whether a job fits into memory.
    """

    def __init__(self, function: Callable[..., Value], workers: int, memory: MemoryGuard | None = None) -> None:
        self._function, self._workers, self._memory = function, workers, memory or MemoryGuard()
        self._idle: list[_Worker] = []
        self._running: dict[Future[JobResult[Value]], _Running] = {}

    @property
    def free(self) -> int:
        """Number of jobs that can start now."""
        return self._workers - len(self._running)

    def reason_to_wait(self, job: Job) -> str:
        """Return why the job does not fit into memory now; empty if it fits."""
        running = [(one.job.group, one.worker.memory()) for one in self._running.values()]
        held = self._idle[-1].memory() if self._idle else 0
        return self._memory.reason_to_wait(job.group, running, held)

    def submit(self, job: Job) -> None:
        """Give the job to an idle worker, or to a new one."""
        while True:
            worker = self._idle.pop() if self._idle else _Worker()
            try:
                future: Future[JobResult[Value]] = worker.pool.submit(call, self._function, job)
            except BrokenProcessPool:  # it died while it was idle
                worker.stop()
                continue
            self._running[future] = _Running(job, worker, time.perf_counter())
            return

    def wait(self) -> list[JobResult[Value]]:
        """Wait up to half a second for a job to end, and return the results of those that have ended."""
        done, _ = wait(list(self._running), _LOOK_EVERY, FIRST_COMPLETED)
        for one in self._running.values():
            one.peak = max(one.peak, one.worker.memory())
            self._memory.observe(one.peak)
        return [self._collect(future) for future in list(self._running) if future in done]

    def close(self) -> None:
        """Stop all workers, also those that are in the middle of a job."""
        for worker in [*self._idle, *(one.worker for one in self._running.values())]:
            worker.stop()
        self._idle, self._running = [], {}

    def _collect(self, future: "Future[JobResult[Value]]") -> JobResult[Value]:
        one = self._running.pop(future)
        try:
            result = future.result()
        except BrokenProcessPool:
            one.worker.stop()
            return JobResult(one.job.key, time.perf_counter() - one.started, None, _REASON, WORKER_DIED)
        self._memory.job_ended(one.job.group, one.peak)
        self._idle.append(one.worker)
        return result


class _Worker:
    """One process, as a pool of its own: of a larger pool nobody could say which job its dead process was running."""

    def __init__(self) -> None:
        # A forked process would inherit the threads of torch in an undefined state.
        self.pool = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), _end_with_parent)
        with _one_thread(), _interrupts_ignored():
            self._process = self.pool.submit(os.getpid)

    def memory(self) -> int:
        """Return the bytes that the process uses now, 0 while it starts or after it has died."""
        if not self._process.done() or self._process.exception() is not None:
            return 0
        return process_memory(self._process.result())

    def stop(self) -> None:
        """End the process at once."""
        with suppress(BrokenProcessPool, psutil.NoSuchProcess):  # it is gone already
            psutil.Process(self._process.result()).kill()
        self.pool.shutdown(wait=True, cancel_futures=True)


@contextmanager
def _one_thread() -> Iterator[None]:
    """Make processes that start now compute with one thread. Libraries read these variables when they are loaded."""
    before = {name: os.environ.get(name) for name in THREADS}
    os.environ.update(dict.fromkeys(THREADS, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextmanager
def _interrupts_ignored() -> Iterator[None]:
    """Make processes that start now ignore Ctrl-C, which a terminal sends to all of them: this process stops them."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _end_with_parent() -> None:
    """Start a thread that ends this worker when the process that started it is gone, even if it was killed."""

    def watch() -> None:
        parent = multiprocessing.parent_process()
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
