"""Training runs: one after the other here, or in processes with one thread each."""

import math
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, Generic, Protocol, TypeVar

import torch

from icpe.data.interactions import Interactions
from icpe.errors import ConfigError
from icpe.recommender.fitting import validator
from icpe.runs.config import RunConfig
from icpe.train import Trainer

_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
Result = TypeVar("Result")
_KEPT = 8  # splits a process keeps in memory
_parts: dict[str, tuple[Interactions, Interactions, str]] = {}


@dataclass(frozen=True)
class Outcome:
    """Of one training run.

    Attributes:
        seconds: it took.
        score: best NDCG@20 on validation; None if it failed.
        reason: why it failed.
        kind: of the error.
    """

    seconds: float
    score: float | None = None
    reason: str = ""
    kind: str = ""


def open_training(config: RunConfig, seed: int) -> tuple[Interactions, Interactions, str]:
    """Training part, validation part, and a hash of both. The test part is left behind.

    Raises:
        ConfigError: there is no validation part.
    """
    config = config.updated("train", {"seed": seed})
    key = repr((config.data, config.split, seed))
    if key not in _parts:
        parts = config.open_parts()
        if len(parts.valid) == 0:
            raise ConfigError("settings are chosen on validation data, and there are none: give --valid FILE")
        while len(_parts) >= _KEPT:
            del _parts[next(iter(_parts))]
        _parts[key] = (parts.train, parts.valid, f"{parts.train.content_hash} {parts.valid.content_hash}")
    return _parts[key]


def forget_data() -> None:
    """Free the memory of splits."""
    _parts.clear()


def train_once(config: RunConfig, seed: int, on_step: Callable[[], None] | None = None) -> Outcome:
    """Train with one seed and give the best score on validation; whatever goes wrong is told in the outcome."""
    started = time.perf_counter()
    try:
        config = config.updated("train", {"seed": seed})
        method = config.make_method()
        train, valid, _ = open_training(config, seed)
        trainer = Trainer(method, train, seed, config.train_settings(method), validator(train, valid))
        trainer.run(None if on_step is None else lambda position: on_step())
        score = float(trainer.position.best)
        if not math.isfinite(score):
            raise ValueError(f"NDCG@20 on validation is {score}")
        return Outcome(time.perf_counter() - started, score)
    except Exception as error:  # one bad trial must not end a night of tuning
        return Outcome(time.perf_counter() - started, None, str(error) or repr(error), type(error).__name__)


class Workers(Protocol[Result]):
    """Takes work and gives what came out."""

    @property
    def free(self) -> int:
        """How much it can take now."""

    def submit(self, key: int, *arguments: Any) -> None:
        """Take work, known by a key."""

    def collect(self, timeout: float) -> list[tuple[int, Result]]:
        """What has ended, after so many seconds at most."""

    def close(self) -> None:
        """Stop everything."""


class Here(Generic[Result]):
    """Work in this process, when it is submitted.

    Args:
        work: what to do with what is submitted.
        on_close: called at the end.
    """

    def __init__(self, work: Callable[..., Result], on_close: Callable[[], None]) -> None:
        self._work, self._on_close, self._ended = work, on_close, list[tuple[int, Result]]()

    @property
    def free(self) -> int:
        """One at a time."""
        return 1 - len(self._ended)

    def submit(self, key: int, *arguments: Any) -> None:
        """Do it at once."""
        self._ended.append((key, self._work(*arguments)))

    def collect(self, timeout: float) -> list[tuple[int, Result]]:
        """What was submitted."""
        ended, self._ended = self._ended, []
        return ended

    def close(self) -> None:
        """No more will come."""
        self._on_close()


class Processes(Generic[Result]):
    """Work in processes of their own, which begin when there is work and end with this one however it ends.

    Args:
        number: of processes.
        work: what they do with what is submitted; a function of a module, which gives back plain values.
        died: what to give in its place where a process has died, from the seconds and the reason.
    """

    def __init__(self, number: int, work: Callable[..., Result], died: Callable[[float, str], Result]) -> None:
        self._context = multiprocessing.get_context("spawn")  # a fork would copy torch's threads half alive
        self._number, self._work, self._died = number, work, died
        self._idle: list[tuple[Connection, BaseProcess]] = []
        self._busy: dict[Connection, tuple[int, BaseProcess, float]] = {}

    @property
    def free(self) -> int:
        """How much it can take now."""
        return self._number - len(self._busy)

    def processes(self) -> tuple[list[int], dict[int, int]]:
        """Numbers of the processes that are idle, and of those at work by their keys."""
        busy = {key: process.pid or 0 for key, process, _ in self._busy.values()}
        return [process.pid or 0 for _, process in self._idle], busy

    def submit(self, key: int, *arguments: Any) -> None:
        """Give work to an idle process."""
        connection, process = self._idle.pop() if self._idle else self._start()
        self._busy[connection] = (key, process, time.perf_counter())
        with suppress(OSError):  # it died while it had nothing to do; collect() will see that
            connection.send(arguments)

    def collect(self, timeout: float) -> list[tuple[int, Result]]:
        """Wait for the first to end."""
        ended = []
        for one in wait(list(self._busy), timeout):
            assert isinstance(one, Connection)
            key, process, started = self._busy.pop(one)
            try:
                ended.append((key, one.recv()))
                self._idle.append((one, process))
            except (EOFError, OSError):
                process.join()
                one.close()
                reason = f"its process ended with code {process.exitcode}, perhaps for want of memory"
                ended.append((key, self._died(time.perf_counter() - started, reason)))
                self._idle.append(self._start())
        return ended

    def close(self) -> None:
        """Stop the processes, whatever they do."""
        for connection, process in [*self._idle, *((one, held[1]) for one, held in self._busy.items())]:
            process.terminate()
            process.join()
            connection.close()
        self._idle, self._busy = [], {}

    def _start(self) -> tuple[Connection, BaseProcess]:
        ours, theirs = self._context.Pipe()
        process = self._context.Process(target=_serve, args=(theirs, self._work), daemon=True)
        with _one_thread(), _deaf_to_interrupts():
            process.start()
        theirs.close()
        return ours, process


@contextmanager
def _one_thread() -> Iterator[None]:
    """Let processes that are started now compute with one thread; libraries read this when they are loaded."""
    before = {name: os.environ.get(name) for name in _THREADS}
    os.environ.update(dict.fromkeys(_THREADS, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextmanager
def _deaf_to_interrupts() -> Iterator[None]:
    """Let processes that are started now ignore Ctrl-C, which reaches all of a terminal: the first one decides."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _serve(connection: Connection, work: Callable[..., Any]) -> None:
    """What a process does: its work, as it comes."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    torch.set_num_threads(1)
    while True:
        try:
            arguments = connection.recv()
        except EOFError:
            return
        try:
            connection.send(work(*arguments))
        except KeyboardInterrupt:  # of a run that listens to Ctrl-C itself, and has saved its state by now
            return


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


def make_workers(number: int, on_step: Callable[[], None]) -> Workers[Outcome]:
    """One here, or several processes."""
    if number > 1:
        return training_processes(number)
    return Here(lambda config, seed: train_once(config, seed, on_step), forget_data)


def training_processes(number: int) -> Processes[Outcome]:
    """Processes that train by :func:`train_once`."""
    return Processes(number, train_once, lambda seconds, reason: Outcome(seconds, None, reason, "Died"))
