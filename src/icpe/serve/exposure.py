"""Live exposure: how often each item has been served, and what that means for niche items.

The counts of a process lie in an array. Several processes keep theirs in files of one folder that all of them map into
memory, so that any of them can report the sum.
"""

import os
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from threading import Lock

import numpy as np

from icpe.data.popularity import lorenz
from icpe.metrics.bias.attention import attention
from icpe.metrics.bias.concentration import entropy
from icpe.metrics.bias.concentration import gini as weighted_gini
from icpe.metrics.bias.sums import STEEPEST
from icpe.metrics.exposure import coverage, gini
from icpe.metrics.power_law import PowerLaw
from icpe.serve.answers import ServedModel
from icpe.types import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Exposure:
    """What a model has served since it was loaded.

    Attributes:
        counts: int64 [items], number of lists that contained each item.
        attention: float64 [items], rank-weighted exposure: each list has one unit of attention, most of it at the top.
        lists: number of lists.
        head: bool [items], the head items.
        popularity: int64 [items], number of training interactions.
    """

    counts: IntArray
    attention: FloatArray
    lists: int
    head: BoolArray
    popularity: IntArray

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

    @property
    def weighted_niche_share(self) -> float:
        """Share of the attention that niche items had."""
        return float(self.attention[~self.head].sum() / max(self.lists, 1))

    @property
    def mean_popularity(self) -> float:
        """Mean number of training interactions of the served places."""
        return float(self.counts @ self.popularity / max(self.places, 1))

    @property
    def popularity_lift(self) -> float:
        """How much more popular the served places are than what users chose in the training data; 0 is equally."""
        chosen = float(self.popularity @ self.popularity / max(self.popularity.sum(), 1))
        return self.mean_popularity / chosen - 1 if self.places and chosen else 0.0

    @property
    def amplification(self) -> float:
        """Slope of log exposure on log popularity: 1 is proportional to popularity, 0 independent of it."""
        known = self.popularity > 0
        if not self.counts[known].any():
            return 0.0
        logs = np.average(np.log(self.popularity[known]), weights=self.counts[known])
        return float(PowerLaw.of(self.popularity).power(np.array([logs]), -STEEPEST, STEEPEST)[0])

    @property
    def entropy(self) -> float:
        """Shannon entropy of the counts in bits."""
        return float(entropy(self.counts))

    @property
    def weighted_gini(self) -> float:
        """Gini coefficient of the attention over all items."""
        return float(weighted_gini(self.attention))

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


_ONE_LIST = np.array([1.0, 0.0])


class ExposureCounter:
    """Counts what is served, by model and version.

    Args:
        board: folder that several processes share, or None for one process.
    """

    def __init__(self, board: Path | None = None) -> None:
        self._board, self._lock = board, Lock()
        self._own: dict[tuple[str, str], FloatArray] = {}

    def add(self, served: ServedModel, items: IntArray) -> None:
        """Count one list."""
        counts = self._counts(served)
        places = _places(len(items))
        with self._lock:
            counts[items] += places  # an item occurs once in a list
            counts[-1] += _ONE_LIST

    def of(self, served: ServedModel) -> Exposure:
        """Return what all processes have served with this version of a model."""
        counts = self._counts(served)
        if self._board is not None:
            files = sorted(self._board.glob(f"{_stem(served)}-*.counts"))
            counts = np.sum([np.memmap(file, np.float64, "r", shape=counts.shape) for file in files], axis=0)
        shown, weights = counts[:-1].T
        popularity = served.model.log.item_counts
        return Exposure(shown.astype(np.int64), weights.copy(), int(counts[-1, 0]), served.head, popularity)

    def forget_others(self, versions: dict[str, str]) -> None:
        """Drop the counts of this process for versions that are no longer served."""
        for key in [key for key in self._own if versions.get(key[0]) != key[1]]:
            del self._own[key]
            if self._board is not None:
                (self._board / f"{'-'.join(key)}-{os.getpid()}.counts").unlink(missing_ok=True)

    def _counts(self, served: ServedModel) -> FloatArray:
        """Count and attention of each item in this process, float64 [items + 1, 2]; the last row counts the lists."""
        key = served.name, served.version
        found = self._own.get(key)
        if found is None:
            with self._lock:
                if key not in self._own:
                    self._own[key] = self._new(served)
                found = self._own[key]
        return found

    def _new(self, served: ServedModel) -> FloatArray:
        shape = len(served.head) + 1, 2
        if self._board is None:
            return np.zeros(shape)
        return np.memmap(self._board / f"{_stem(served)}-{os.getpid()}.counts", np.float64, "w+", shape=shape)


def _stem(served: ServedModel) -> str:
    return f"{served.name}-{served.version}"


@lru_cache(maxsize=64)
def _places(n: int) -> FloatArray:
    """What each place of a list adds, float64 [n, 2]: one, and its attention. Few different lengths are requested."""
    return np.stack([np.ones(n), attention(np.zeros((1, n), np.int64))[0]], axis=1)
