"""Live exposure: how often each item has been served, and what that means for niche items.

The counts of a process lie in an array. Several processes keep theirs in files of one folder that all of them map into
memory, so that any of them can report the sum.
"""

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from threading import Lock

import numpy as np

from icpe.data.popularity import lorenz
from icpe.metrics.exposure import coverage, gini
from icpe.serve.answers import ServedModel
from icpe.types import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Exposure:
    """What a model has served since it was loaded.

    Attributes:
        counts: int64 [items], number of lists that contained each item.
        lists: number of lists.
        head: bool [items], the head items.
    """

    counts: IntArray
    lists: int
    head: BoolArray

    @property
    def places(self) -> int:
        """Number of places in all lists."""
        return int(self.counts.sum())

    @property
    def niche_places(self) -> int:
        """Number of places that niche items had."""
        return int(self.counts[~self.head].sum())

    @property
    def niche_share(self) -> float:
        """Share of the places that niche items had; 0 before anything was served."""
        return self.niche_places / max(self.places, 1)

    @cached_property
    def gini(self) -> float:
        """Gini coefficient of the counts over all items."""
        return gini(self.counts)

    @property
    def coverage(self) -> float:
        """Share of all items that were served at least once."""
        return coverage(self.counts)

    def curve(self, points: int) -> FloatArray:
        """Return the share of the places that the most served 0, …, all items had, at evenly spaced points."""
        whole = lorenz(self.counts)
        return np.interp(np.linspace(0, len(whole) - 1, points), np.arange(len(whole)), whole)


class ExposureCounter:
    """Counts what is served, by model and version.

    Args:
        board: folder that several processes share, or None for one process.
    """

    def __init__(self, board: Path | None = None) -> None:
        self._board, self._lock = board, Lock()
        self._own: dict[tuple[str, str], IntArray] = {}

    def add(self, served: ServedModel, items: IntArray) -> None:
        """Count one list."""
        counts = self._counts(served)
        with self._lock:
            counts[items] += 1  # an item occurs once in a list
            counts[-1] += 1

    def of(self, served: ServedModel) -> Exposure:
        """Return what all processes have served with this version of a model."""
        counts = self._counts(served)
        if self._board is not None:
            files = sorted(self._board.glob(f"{_stem(served)}-*.counts"))
            counts = np.sum([np.memmap(file, np.int64, "r", shape=counts.shape) for file in files], axis=0)
        return Exposure(np.array(counts[:-1]), int(counts[-1]), served.head)

    def forget_others(self, versions: dict[str, str]) -> None:
        """Drop the counts of this process for versions that are no longer served."""
        for key in [key for key in self._own if versions.get(key[0]) != key[1]]:
            del self._own[key]
            if self._board is not None:
                (self._board / f"{'-'.join(key)}-{os.getpid()}.counts").unlink(missing_ok=True)

    def _counts(self, served: ServedModel) -> IntArray:
        """The counts of this process: one number for each item, and the number of lists at the end."""
        key = served.name, served.version
        found = self._own.get(key)
        if found is None:
            with self._lock:
                if key not in self._own:
                    self._own[key] = self._new(served)
                found = self._own[key]
        return found

    def _new(self, served: ServedModel) -> IntArray:
        size = len(served.head) + 1
        if self._board is None:
            return np.zeros(size, np.int64)
        return np.memmap(self._board / f"{_stem(served)}-{os.getpid()}.counts", np.int64, "w+", shape=(size,))


def _stem(served: ServedModel) -> str:
    return f"{served.name}-{served.version}"
