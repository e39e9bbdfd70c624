"""Expected exposure: the attention of the lists beside that of ideal lists, for all lists or for resamples of them."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from icpe.data.interactions import Interactions
from icpe.metrics.bias.attention import attention, expected_exposure, wanted_attention
from icpe.ranking import Lists
from icpe.types import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class IdealLists:
    """Attention of the lists of users with test items, and what an ideal recommender would give.

    Attributes:
        rows: int64 [evaluated lists], which lists these are.
        shown: sparse [items, evaluated lists], attention of each item in each list.
        wanted: the same of ideal lists, minus what every other item gets.
        other: float64 [evaluated lists], what every other item gets.
    """

    rows: IntArray
    shown: Any
    wanted: Any
    other: FloatArray

    @classmethod
    def of(cls, lists: Lists, test: Interactions, n: int) -> "IdealLists":
        """Return the ideal lists of the users with a list and test items; ``n`` is the list length."""
        rows = np.flatnonzero(test.user_counts[lists.users])
        counts = test.user_counts[lists.users[rows]]
        relevant, other = wanted_attention(counts, len(test.items), n)
        first = np.searchsorted(test.user, lists.users[rows].astype(test.user.dtype))
        ends = np.cumsum(counts)
        pairs = np.arange(counts.sum()) + np.repeat(first - ends + counts, counts)
        starts = np.concatenate([[0], ends])
        wanted = _columns(test.item[pairs], starts, np.repeat(relevant - other, counts), len(test.items))
        return cls(rows, attention_matrix(lists.items[rows], len(test.items), np.float64), wanted, other)

    def metrics(self, times: FloatArray) -> dict[str, FloatArray]:
        """Expected-exposure metrics of lists that occur this often, by name; ``times`` is [resamples, lists]."""
        chosen = times[:, self.rows].astype(np.float64)
        share = (chosen / np.maximum(chosen.sum(axis=1, keepdims=True), 1.0)).T
        disparity, relevance, loss = expected_exposure(
            (self.shown @ share).T, (self.wanted @ share + self.other @ share).T
        )
        return {"ee_d": disparity, "ee_r": relevance, "ee_l": loss}


def attention_matrix(items: IntArray, size: int, dtype: Any) -> Any:
    """Sparse matrix [items, lists] of the attention of each item in each list."""
    filled = items >= 0
    starts = np.concatenate([[0], np.cumsum(filled.sum(axis=1))])
    return _columns(items[filled], starts, attention(items)[filled].astype(dtype), size)


def _columns(items: IntArray, starts: IntArray, values: FloatArray, size: int) -> Any:
    from scipy.sparse import csc_array  # late: SciPy takes a while to import

    return csc_array((values, items, starts), shape=(size, len(starts) - 1))
