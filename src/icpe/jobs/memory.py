"""How many runs fit into memory at a time."""

import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

_KEPT_FREE = 0.05  # share of the available memory that stays free
GB = 1e9


def peak_memory() -> int | None:
    """Bytes of memory this process had at most; None where the system does not tell."""
    try:
        import resource
    except ImportError:  # not on every system
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return int(peak) if sys.platform == "darwin" else int(peak) * 1024


def available_memory(meminfo: Path = Path("/proc/meminfo")) -> int | None:
    """Bytes that new processes can have without others being swapped out; all there are where only that is known."""
    try:
        lines = meminfo.read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, ValueError, StopIteration):
        pass
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return None


def resident_memory(process: int) -> int:
    """Bytes of memory a process has now; 0 where that cannot be told, which is on the safe side."""
    try:
        pages = int(Path(f"/proc/{process}/statm").read_text(encoding="ascii").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0


class MemoryRule:
    """Lets a run begin if it fits beside what the others will have at most.

    How much a run needs is what one on the same backbone had at most, or the largest of all where there was none.

    Args:
        peaks: bytes by backbone, of runs that were made before.
    """

    def __init__(self, peaks: Mapping[str, int]) -> None:
        self._peaks = dict(peaks)

    def note(self, backbone: str, peak: int | None) -> None:
        """A run on the backbone has had so much."""
        if peak is not None:
            self._peaks[backbone] = max(peak, self._peaks.get(backbone, 0))

    def need(self, backbone: str) -> int | None:
        """Bytes of a run, None before anything is known."""
        return self._peaks.get(backbone, max(self._peaks.values(), default=None))

    def objection(self, backbone: str, running: Iterable[tuple[str, int]], idle: Iterable[int]) -> str:
        """Why no run on the backbone should begin now; empty if one may.

        Args:
            backbone: of the run.
            running: backbones and processes of those that are on their way.
            idle: processes that would take the run, with the memory they hold already.
        """
        others, free, need = list(running), available_memory(), self.need(backbone)
        if not others or free is None:
            return ""
        if need is None:
            return "" if peak_memory() is None else "the first run shows how much memory one needs"
        growth = sum(max(0, (self.need(one) or 0) - resident_memory(process)) for one, process in others)
        held = max((resident_memory(process) for process in idle), default=0)
        left = (1 - _KEPT_FREE) * free - growth
        if need - held <= left:
            return ""
        return f"a run needs {need / GB:.1f} GB of memory, and {max(left + held, 0) / GB:.1f} GB are left"
