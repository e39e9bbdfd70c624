"""The threads that this process computes with.

One rule says how many: the environment variable ``OMP_NUM_THREADS``, which NumPy and torch obey too, and otherwise the
number of processor cores that the process may use. Results never depend on the number. Work is divided into parts by
its size alone, threads take the parts one after the other, and partial results are combined in the order of the parts.
"""

import os
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import cache
from itertools import count as numbers
from itertools import islice
from queue import SimpleQueue
from threading import Lock, Thread, local
from typing import Any, TypeVar

from icpe.errors import ConfigError

VARIABLE = "OMP_NUM_THREADS"

Part = TypeVar("Part")
Result = TypeVar("Result")

BLOCK = 1024  # rows that are worth a part of their own: in training, some tenths of a millisecond

_chosen: list[int] = []  # numbers of the contexts of :func:`use`, the innermost last
_here = local()  # `busy` is true in a thread that works on a part, so that its own parts stay in this thread


def count() -> int:
    """Return the number of threads to compute with.

    Raises:
        ConfigError: ``OMP_NUM_THREADS`` is not a whole number from 1 up.

    Example:
        >>> with use(2):
        ...     count()
        2
    """
    if _chosen:
        return _chosen[-1]
    given = os.environ.get(VARIABLE, "").split(",")[0].strip()  # OpenMP allows a number for each level of nesting
    if not given:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if not given.isdecimal() or int(given) < 1:
        raise ConfigError(f"the environment variable {VARIABLE} is {given!r}; expected a whole number from 1 up")
    return int(given)


@contextmanager
def use(number: int) -> Iterator[None]:
    """Compute with this number of threads for as long as the context lasts, whatever the environment says."""
    if number < 1:
        raise ConfigError(f"the number of threads is {number}; expected a whole number from 1 up")
    _chosen.append(number)
    try:
        yield
    finally:
        _chosen.pop()


def blocks(size: int) -> list[tuple[int, int]]:
    """Return the first row and the last + 1 of every :data:`BLOCK` of ``size`` rows, whatever the number of threads.

    It is for sums: those of the blocks are added in this order.
    """
    return [(first, min(first + BLOCK, size)) for first in range(0, max(size, 1), BLOCK)]


def stretches(size: int) -> list[tuple[int, int]]:
    """Return the first row and the last + 1 of parts of ``size`` rows, as many as the threads can use.

    It is for work on rows that do not depend on each other.
    """
    number = min(2 * count(), -(-size // (BLOCK // 2))) if count() > 1 and size > BLOCK and not _busy() else 1
    return [(size * part // number, size * (part + 1) // number) for part in range(number)]


def run_parts(work: Callable[..., Result], parts: Sequence[tuple[Any, ...]]) -> list[Result]:
    """Call ``work(*part)`` for every part, on several threads, and return the results in the order of the parts.

    The calling thread works too and does not wait for threads that have not begun, so that work is never slower beside
    other programs that keep the other cores busy. An error of a part is raised after the last part has ended.
    """
    others = min(count(), len(parts)) - 1
    if others < 1 or _busy():
        return [work(*part) for part in parts]
    results: list[Any] = [None] * len(parts)
    turn = numbers()

    def take_turns() -> None:
        while (place := next(turn)) < len(parts):
            results[place] = work(*parts[place])

    errands = [_send(take_turns) for _ in range(others)]
    try:
        with _working():
            take_turns()
    finally:
        errors = [error for errand in errands if (error := errand.result()) is not None]
    for error in errors:
        raise error
    return results


def beforehand(works: Sequence[Callable[[], Result]]) -> Iterator[Result]:
    """Yield the results of functions that must be called one after the other, for example because they draw numbers.

    Another thread calls them from now on, so that the calling thread can do something else until it takes a result. If
    no thread has begun by then, the calling thread does the work itself.
    """
    if count() < 2 or _busy():
        return (work() for work in works)
    made: SimpleQueue[tuple[Result] | BaseException] = SimpleQueue()

    def make() -> None:
        try:
            for work in works:
                made.put((work(),))
        except BaseException as error:
            made.put(error)

    errand = _send(make)

    def results() -> Iterator[Result]:
        if errand.take_back():
            yield from (work() for work in works)
            return
        for _ in works:
            found = made.get()
            if isinstance(found, BaseException):
                raise found
            yield found[0]

    return results()


class _Errand:
    """Work for another thread, unless it is wanted before that thread begins. A future takes several times as long."""

    def __init__(self, work: Callable[[], object]) -> None:
        self._work: Callable[[], object] | None = work
        self._begun, self._ended = Lock(), Lock()
        self._ended.acquire()
        self._error: BaseException | None = None

    def run(self) -> None:
        """Do the work, unless somebody has taken it back."""
        if self._begun.acquire(blocking=False):
            assert self._work is not None
            try:
                self._work()
            except BaseException as error:
                self._error = error
            self._work = None  # it refers to arrays
            self._ended.release()

    def take_back(self) -> bool:
        """Return whether the work has not begun, and will not any more."""
        taken = self._begun.acquire(blocking=False)
        if taken:
            self._work = None
        return taken

    def result(self) -> BaseException | None:
        """Return the error of the work at its end. Work that has not begun is taken back."""
        if not self.take_back():
            self._ended.acquire()
        return self._error


class _Others:
    """The threads that wait for errands, as many as were needed at the same time."""

    def __init__(self) -> None:
        self.errands: SimpleQueue[_Errand] = SimpleQueue()
        self._lock, self._number = Lock(), 0

    def grow(self, number: int) -> None:
        """Start threads until there are ``number`` of them."""
        with self._lock:
            while self._number < number:
                Thread(target=self._serve, name="icpe", daemon=True).start()
                self._number += 1

    def _serve(self) -> None:
        _here.busy = True
        while True:
            self.errands.get().run()


@cache
def _others() -> _Others:
    return _Others()


def _send(work: Callable[[], object]) -> _Errand:
    """Let another thread do some work as soon as it is free."""
    errand = _Errand(work)
    _others().grow(count() - 1)
    _others().errands.put(errand)
    return errand


def in_order(work: Callable[[Part], Result], parts: Sequence[Part], most: int) -> Iterator[Result]:
    """Yield ``work(part)`` for every part, in order. Several threads work, each with one thread of BLAS and torch.

    Args:
        work: function of a part that several threads may call at the same time.
        parts: the parts. Work on a part begins only when a result has been taken, so that few results wait.
        most: largest number of parts that may be in memory at the same time.
    """
    with libraries_alone():
        threads = min(count(), most, len(parts))
        if threads < 2 or _busy():
            yield from map(work, parts)
            return
        yield from _ahead(work, iter(parts), threads)


def _ahead(work: Callable[[Part], Result], parts: Iterator[Part], threads: int) -> Iterator[Result]:
    def alone(part: Part) -> Result:
        with _working():
            return work(part)

    pool = _pool(threads)
    waiting: deque[Future[Result]] = deque()
    try:
        waiting.extend(pool.submit(alone, part) for part in islice(parts, threads))
        while waiting:
            result = waiting.popleft().result()
            waiting.extend(pool.submit(alone, part) for part in islice(parts, 1))
            yield result
    finally:
        for future in waiting:
            future.cancel()
        wait(waiting)


@contextmanager
def libraries_alone() -> Iterator[None]:
    """Let BLAS and torch compute with one thread each for as long as the context lasts.

    They divide every product among their threads and wait for the slowest. For small products, and beside a program
    that keeps a core busy, this is several times slower than one thread.
    """
    _blas.enter()
    torch = sys.modules.get("torch")  # who has not imported it does not use it
    before = torch.get_num_threads() if torch else 1
    if torch and before > 1:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        if torch and before > 1:
            torch.set_num_threads(before)
        _blas.leave()


class _Blas:
    """Limits the threads of NumPy's BLAS while at least one context needs it, because the number is global."""

    def __init__(self) -> None:
        self._lock, self._users = Lock(), 0
        self._limit: Any = None

    def enter(self) -> None:
        with self._lock:
            self._users += 1
            if self._users == 1:
                self._limit = _controller().limit(limits=1, user_api="blas")

    def leave(self) -> None:
        with self._lock:
            self._users -= 1
            if self._users == 0:
                self._limit.restore_original_limits()


_blas = _Blas()


@cache
def _controller() -> Any:
    import numpy  # noqa: F401 - the controller finds libraries that are loaded already
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, "icpe")


if hasattr(os, "register_at_fork"):
    # Threads do not survive a fork.
    os.register_at_fork(after_in_child=_pool.cache_clear)
    os.register_at_fork(after_in_child=_others.cache_clear)


def _busy() -> bool:
    return getattr(_here, "busy", False)


@contextmanager
def _working() -> Iterator[None]:
    before = _busy()
    _here.busy = True
    try:
        yield
    finally:
        _here.busy = before
