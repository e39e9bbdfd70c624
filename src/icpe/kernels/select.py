"""Selection of the best items of each user while scores arrive tile by tile."""

import numba
import numpy as np

from icpe.types import BoolArray, FloatArray, IntArray

_STRIDE = 64  # scores compared at a time: most strides contain no score above the threshold and are skipped


class Selection:
    """Best ``n`` items of a group of users, from scores in tiles with ascending item codes.

    A bounded heap per user contains the best items so far. Its worst score is a threshold that nearly all later scores
    fail, so that a comparison is all they cost. Ties are broken by the smaller item code.

    Args:
        rows: number of users.
        n: length of the lists.
        starts: int64 [rows + 1], where each user's hidden items begin and end in ``hidden``.
        hidden: int32 [pairs], item codes, ascending for each user. They may repeat.
        allowed: bool [items], mask of the items that may be listed, or None for all items.
    """

    def __init__(self, rows: int, n: int, starts: IntArray, hidden: IntArray, allowed: BoolArray | None) -> None:
        self.items = np.full((rows, n), -1, np.int32)
        self.scores = np.full((rows, n), -np.inf, np.float32)
        self._sizes = np.zeros(rows, np.int64)
        self._cursor, self._stops = starts[:-1].astype(np.int64), starts[1:].astype(np.int64)
        self._hidden = hidden.astype(np.int32, copy=False)
        self._allowed = np.empty(0, np.bool_) if allowed is None else allowed

    def add(self, block: FloatArray, start: int) -> tuple[int, int] | None:
        """Add scores float32 [rows, width] of the items from ``start`` on. Return row and item of a NaN, or None."""
        row, item = _add(
            np.ascontiguousarray(block, np.float32), start, self.scores, self.items, self._sizes,
            self._cursor, self._stops, self._hidden, self._allowed,
        )  # fmt: skip
        return None if row < 0 else (row, item)

    def finish(self) -> tuple[IntArray, FloatArray]:
        """Items int32 [rows, n] and scores float32 [rows, n], the best first, padded with -1 and -inf."""
        _sort(self.scores, self.items, self._sizes)
        return self.items, self.scores


@numba.njit(cache=True, nogil=True, inline="always")
def _worse(score, item, than_score, than_item):  # type: ignore[no-untyped-def]
    return score < than_score or (score == than_score and item > than_item)


@numba.njit(cache=True, nogil=True)
def _rise(scores, items, place, score, item):  # type: ignore[no-untyped-def]
    # Inserts an entry at the end of the heap, whose root is the worst entry, and moves it up.
    while place > 0:
        parent = (place - 1) // 2
        if not _worse(score, item, scores[parent], items[parent]):
            break
        scores[place], items[place] = scores[parent], items[parent]
        place = parent
    scores[place], items[place] = score, item


@numba.njit(cache=True, nogil=True)
def _sink(scores, items, size, score, item):  # type: ignore[no-untyped-def]
    # Replaces the root by an entry and moves it down.
    place = 0
    while True:
        child = 2 * place + 1
        if child >= size:
            break
        if child + 1 < size and _worse(scores[child + 1], items[child + 1], scores[child], items[child]):
            child += 1
        if not _worse(scores[child], items[child], score, item):
            break
        scores[place], items[place] = scores[child], items[child]
        place = child
    scores[place], items[place] = score, item


@numba.njit(cache=True, nogil=True)
def _any_above(scores, threshold):  # type: ignore[no-untyped-def]
    # No early exit, so that the processor compares many scores at once. "Not at most" instead of "above" also accepts
    # NaN, which is found when the few remaining scores are checked one by one.
    above = False
    for place in range(scores.shape[0]):
        above |= not (scores[place] <= threshold)
    return above


@numba.njit(cache=True, nogil=True)
def _is_hidden(item, row, cursor, stops, hidden):  # type: ignore[no-untyped-def]
    # Items are requested in ascending order, so the cursor only moves forward.
    at, stop = cursor[row], stops[row]
    while at < stop and hidden[at] < item:
        at += 1
    cursor[row] = at
    return at < stop and hidden[at] == item


@numba.njit(cache=True, nogil=True)
def _keep(score, item, scores, items, sizes, row):  # type: ignore[no-untyped-def]
    # Items arrive in ascending order, so an item that ties with the worst is not added and the earlier one stays.
    n = scores.shape[0]
    if sizes[row] < n:
        _rise(scores, items, sizes[row], score, item)
        sizes[row] += 1
    else:
        _sink(scores, items, n, score, item)
    return scores[0] if sizes[row] == n else np.float32(-np.inf)


@numba.njit(cache=True, nogil=True)
def _add(block, start, scores, items, sizes, cursor, stops, hidden, allowed):  # type: ignore[no-untyped-def]
    n, width = scores.shape[1], block.shape[1]
    for row in range(block.shape[0]):
        line, best, chosen = block[row], scores[row], items[row]
        threshold = scores[row, 0] if sizes[row] == n else np.float32(-np.inf)
        for begin in range(0, width, _STRIDE):
            end = min(begin + _STRIDE, width)
            if not _any_above(line[begin:end], threshold):
                continue
            for place in range(begin, end):
                if line[place] <= threshold or (allowed.shape[0] > 0 and not allowed[start + place]):
                    continue
                if np.isnan(line[place]):
                    return row, start + place
                if _is_hidden(start + place, row, cursor, stops, hidden):
                    continue
                threshold = _keep(line[place], start + place, best, chosen, sizes, row)
    return -1, -1


@numba.njit(cache=True, nogil=True)
def _sort(scores, items, sizes):  # type: ignore[no-untyped-def]
    for row in range(scores.shape[0]):
        for last in range(sizes[row] - 1, 0, -1):
            score, item = scores[row, last], items[row, last]
            scores[row, last], items[row, last] = scores[row, 0], items[row, 0]
            _sink(scores[row], items[row], last, score, item)
