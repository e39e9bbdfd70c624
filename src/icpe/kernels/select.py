"""Keeping the best items of each user while scores arrive tile by tile."""

import numba
import numpy as np

from icpe.types import BoolArray, FloatArray, IntArray

_STRIDE = 64  # scores looked at together: most strides hold nothing above the threshold and are left at once


class Selection:
    """The best ``n`` items of some users, from scores in tiles of ascending item codes.

    A bounded heap per user holds what is best so far; its worst score is the threshold that nearly all later scores
    fail, and comparing with it is all that happens to them. Equal scores are ordered by item code.

    Args:
        rows: number of users.
        n: length of the lists.
        starts: int64 [rows + 1], where each user's hidden items begin and end in ``hidden``.
        hidden: int32 [pairs], item codes, ascending for each user; may repeat.
        allowed: bool [items], or None where all items are.
    """

    def __init__(self, rows: int, n: int, starts: IntArray, hidden: IntArray, allowed: BoolArray | None) -> None:
        self.items = np.full((rows, n), -1, np.int32)
        self.scores = np.full((rows, n), -np.inf, np.float32)
        self._sizes = np.zeros(rows, np.int64)
        self._cursor, self._stops = starts[:-1].astype(np.int64), starts[1:].astype(np.int64)
        self._hidden = hidden.astype(np.int32, copy=False)
        self._allowed = np.empty(0, np.bool_) if allowed is None else allowed

    def add(self, block: FloatArray, start: int) -> tuple[int, int] | None:
        """Take in the scores float32 [rows, width] of the items from ``start``; the place of a NaN, if there is one."""
        row, item = _add(
            np.ascontiguousarray(block, np.float32), start, self.scores, self.items, self._sizes,
            self._cursor, self._stops, self._hidden, self._allowed,
        )  # fmt: skip
        return None if row < 0 else (row, item)

    def finish(self) -> tuple[IntArray, FloatArray]:
        """Items int32 [rows, n] and scores float32 [rows, n], the best first; -1 and -inf where nothing is left."""
        _sort(self.scores, self.items, self._sizes)
        return self.items, self.scores


@numba.njit(cache=True, nogil=True, inline="always")
def _worse(score, item, than_score, than_item):  # type: ignore[no-untyped-def]
    return score < than_score or (score == than_score and item > than_item)


@numba.njit(cache=True, nogil=True)
def _rise(scores, items, place, score, item):  # type: ignore[no-untyped-def]
    # Puts an entry at the end of the heap, whose root is the worst, and lets it rise.
    while place > 0:
        parent = (place - 1) // 2
        if not _worse(score, item, scores[parent], items[parent]):
            break
        scores[place], items[place] = scores[parent], items[parent]
        place = parent
    scores[place], items[place] = score, item


@numba.njit(cache=True, nogil=True)
def _sink(scores, items, size, score, item):  # type: ignore[no-untyped-def]
    # Puts an entry in place of the root and lets it sink.
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
    # No early end, so that the processor compares many scores at once. "Not at most" instead of "above" lets NaN
    # through as well, to be found where the few that are left are looked at one by one.
    above = False
    for place in range(scores.shape[0]):
        above |= not (scores[place] <= threshold)
    return above


@numba.njit(cache=True, nogil=True)
def _is_hidden(item, row, cursor, stops, hidden):  # type: ignore[no-untyped-def]
    # Items are asked for in ascending order, so the cursor only moves on.
    at, stop = cursor[row], stops[row]
    while at < stop and hidden[at] < item:
        at += 1
    cursor[row] = at
    return at < stop and hidden[at] == item


@numba.njit(cache=True, nogil=True)
def _keep(score, item, scores, items, sizes, row):  # type: ignore[no-untyped-def]
    # Items come in ascending order, so an item that only equals the worst does not get here and the earlier one stays.
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
