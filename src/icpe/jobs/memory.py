"""Estimates of the memory that jobs need, so that only as many run at a time as fit."""

import sys
from collections.abc import Callable, Iterable

import psutil

_GB = 1e9
_USABLE = 0.95  # share of the available memory that jobs may take
_CAUTION = 1.5  # factor on what was seen, while no job of the group has ended


def available_memory() -> int:
    """Return the bytes that new processes can use without swapping."""
    return int(psutil.virtual_memory().available)


def process_memory(process: int | None = None) -> int:
    """Return the bytes of memory that a process uses now: this one if None, 0 if the process does not exist."""
    try:
        return int(psutil.Process(process).memory_info().rss)
    except psutil.Error:
        return 0


def peak_memory() -> int:
    """Return the most bytes of memory that this process has used at any time."""
    if sys.platform == "win32":
        return int(psutil.Process().memory_info().peak_wset)
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


class MemoryGuard:
    """Decides whether another job fits beside those that run.

    A job is expected to need what jobs of its group needed at most. Before one of them has ended, the estimate is the
    largest use seen in any process, including this one, which has usually read the same data, times 1.5.

    Args:
        available: returns the bytes that are available now.
        own: returns the bytes that this process uses now.
    """

    def __init__(
        self, available: Callable[[], int] = available_memory, own: Callable[[], int] = process_memory
    ) -> None:
        self._available, self._own = available, own
        self._ended: dict[str, int] = {}
        self._largest = 0

    def observe(self, used: int) -> None:
        """Take note of what a running job uses now."""
        self._largest = max(self._largest, used)

    def job_ended(self, group: str, peak: int) -> None:
        """Take note of the largest use of a job that has ended."""
        self.observe(peak)
        self._ended[group] = max(peak, self._ended.get(group, 0))

    def need(self, group: str) -> int:
        """Return the bytes that a job of the group is expected to need."""
        if group in self._ended:
            return self._ended[group]
        return int(_CAUTION * max(self._largest, self._own()))

    def reason_to_wait(self, group: str, running: Iterable[tuple[str, int]], held: int = 0) -> str:
        """Return why no job of the group should start now; empty if one may.

        Args:
            group: of the job.
            running: group and present use in bytes of every job that runs.
            held: bytes that the worker which would take the job uses already.
        """
        others = list(running)
        if not others:
            return ""  # a job that never fits should fail with a clear error instead of waiting forever
        growth = sum(max(0, self.need(other) - used) for other, used in others)
        left = _USABLE * self._available() - growth + held
        need = self.need(group)
        if need <= left:
            return ""
        return f"a job needs {need / _GB:.1f} GB of memory and {max(left, 0) / _GB:.1f} GB are left"
