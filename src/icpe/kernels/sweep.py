"""Selection of the best items of each user for several item biases at once, from one computation of the scores.

Setting ``t`` adds ``t · direction`` to the scores. The items are given in groups with similar directions. The best
scores of the groups show, for each setting, a threshold that the last item of the list reaches at least. Only items
that reach the threshold of some setting are looked at again, and these are few.
"""

import numba
import numpy as np

from icpe.kernels.exact import _product
from icpe.types import FloatArray, IntArray

_NEIGHBOURS = 1  # settings on either side of a setting that use the same groups of items for their thresholds
_ROUNDING = 1e-6  # relative; a few units in the last place of float32, so that no item is lost to rounding


@numba.njit(cache=True, nogil=True, fastmath={"nnan", "nsz", "reassoc"})
def _largest(values):  # type: ignore[no-untyped-def]
    # The flags allow the processor to compare many numbers at once.
    largest = np.float32(-np.inf)
    for place in range(values.shape[0]):
        largest = max(largest, values[place])
    return largest


@numba.njit(cache=True, nogil=True)
def _has_nan(values):  # type: ignore[no-untyped-def]
    found = False
    for place in range(values.shape[0]):
        found |= values[place] != values[place]
    return found


@numba.njit(cache=True, nogil=True)
def _move_largest_first(values, places, n):  # type: ignore[no-untyped-def]
    # Quickselect: afterwards the first n values are the n largest, in any order.
    low, high = 0, values.shape[0] - 1
    while low < high:
        pivot = values[(low + high) // 2]
        left, right = low, high
        while left <= right:
            while values[left] > pivot:
                left += 1
            while values[right] < pivot:
                right -= 1
            if left <= right:
                values[left], values[right] = values[right], values[left]
                places[left], places[right] = places[right], places[left]
                left += 1
                right -= 1
        if n - 1 <= right:
            high = right
        elif n - 1 >= left:
            low = left
        else:
            break


@numba.njit(cache=True, nogil=True)
def _thresholds(best, least, n, order, lifted, thresholds):  # type: ignore[no-untyped-def]
    # Any n groups guarantee n items, and so a threshold. The best n groups of a setting serve its neighbours, too.
    groups, count = best.shape[0], least.shape[0]
    thresholds[:] = -np.inf
    if groups < n:
        return
    for pivot in range(0, count + _NEIGHBOURS, 2 * _NEIGHBOURS + 1):
        added = least[min(pivot, count - 1)]
        for place in range(groups):
            one = order[place]
            lifted[place] = best[one] + added[one]
        _move_largest_first(lifted, order, n)
        for k in range(max(0, pivot - 2 * _NEIGHBOURS), min(count, pivot + 2 * _NEIGHBOURS + 1)):
            lowest = np.inf
            for place in range(n):
                lowest = min(lowest, best[order[place]] + least[k, order[place]])
            thresholds[k] = max(thresholds[k], lowest)


@numba.njit(cache=True, nogil=True, fastmath={"nnan", "nsz"})
def _bounds(thresholds, most, bounds):  # type: ignore[no-untyped-def]
    # As a function of the direction, the least score that some setting accepts is concave, so that within a group it is
    # least at one of the two ends.
    bounds[:] = np.inf
    for k in range(thresholds.shape[0]):
        for one in range(bounds.shape[0]):
            bound = thresholds[k] - most[k, one]
            bounds[one] = bound if bound < bounds[one] else bounds[one]


@numba.njit(cache=True, nogil=True)
def _candidates(line, best, edges, bounds, chosen):  # type: ignore[no-untyped-def]
    count = 0
    for one in range(best.shape[0]):
        bound = bounds[one]
        if best[one] < bound or best[one] == -np.inf:
            continue
        for place in range(edges[one], edges[one + 1]):
            if line[place] >= bound and line[place] > -np.inf:
                chosen[count] = place
                count += 1
    return count


@numba.njit(cache=True, nogil=True)
def _precedes(one, other, setting, codes, direction, bias, user, items, known):  # type: ignore[no-untyped-def]
    # Exact scores as the ranking of a single setting rounds them. The products do not depend on the setting.
    for each in (one, other):
        if np.isnan(known[each]):
            known[each] = _product(user, items[codes[each]])
    first = np.float32(known[one] + np.float32(bias[one] + np.float32(setting * direction[one])))
    second = np.float32(known[other] + np.float32(bias[other] + np.float32(setting * direction[other])))
    return first > second or (first == second and codes[one] < codes[other])


@numba.njit(cache=True, nogil=True)
def _lists(score, codes, direction, bias, settings, thresholds, slack, user, items, known, values, kept, found):  # type: ignore[no-untyped-def]
    # Exact scores wait for items at random places in memory, so they are computed only where rounding could decide.
    n, count = found.shape[1], codes.shape[0]
    best, listed = np.empty(n + 1), np.empty(n + 1, np.int64)
    for k in range(settings.shape[0]):
        t, size, filled = settings[k], 0, 0
        for one in range(count):
            values[one] = score[one] + t * direction[one]
        for one in range(count):
            if values[one] >= thresholds[k]:
                kept[size] = one
                size += 1
        for place in range(size):
            # Insertion by falling value and then by rising code. The place after the last takes what does not belong.
            one, at = kept[place], filled
            while at > 0:
                gap, other = values[one] - best[at - 1], listed[at - 1]
                if not gap > slack and (
                    gap < -slack or not _precedes(one, other, t, codes, direction, bias, user, items, known)
                ):
                    break
                best[at], listed[at] = best[at - 1], other
                at -= 1
            best[at], listed[at] = values[one], one
            filled = min(filled + 1, n)
        for place in range(n):
            found[k, place] = codes[listed[place]] if place < filled else -1


@numba.njit(cache=True, nogil=True)
def _sweep(block, codes, edges, direction, bias, settings, users, items, exact, margins, safe, found):  # type: ignore[no-untyped-def]
    rows, width = block.shape
    settings_count, n = found.shape[1], found.shape[2]
    groups = edges.shape[0] - 1
    low, high, best = np.empty(groups), np.empty(groups), np.empty(groups)
    for one in range(groups):
        part = direction[edges[one] : edges[one + 1]]
        low[one], high[one] = part.min(), part.max()
    reach = np.abs(settings).max() * max(np.abs(low).max(), np.abs(high).max())
    least, most = np.empty((settings_count, groups)), np.empty((settings_count, groups))  # what a setting adds
    for k in range(settings_count):
        for one in range(groups):
            ends = settings[k] * low[one], settings[k] * high[one]
            least[k, one], most[k, one] = min(ends), max(ends)
    thresholds, lifted, order = np.empty(settings_count), np.empty(groups), np.arange(groups)
    bounds = np.empty(groups)
    chosen, kept = np.empty(width, np.int64), np.empty(width, np.int64)
    score, moved, shift, values = np.empty(width), np.empty(width), np.empty(width, np.float32), np.empty(width)
    code, known = np.empty(width, np.int32), np.empty(width)
    for row in range(rows):
        line = block[row]
        if not safe and _has_nan(line):
            return row
        top = 0.0
        for one in range(groups):
            best[one] = _largest(line[edges[one] : edges[one + 1]])
            if np.isfinite(best[one]):
                top = max(top, abs(best[one]))
        # Two items whose scores differ by more have the same order after rounding.
        slack = 2 * margins[row] + _ROUNDING * (reach + top)
        _thresholds(best, least, n, order, lifted, thresholds)
        thresholds -= slack
        _bounds(thresholds, most, bounds)
        count = _candidates(line, best, edges, bounds, chosen)
        for one in range(count):
            place = chosen[one]
            code[one], score[one], moved[one], shift[one] = codes[place], line[place], direction[place], bias[place]
            known[one] = np.nan if exact else score[one]
        _lists(
            score[:count], code[:count], moved, shift, settings, thresholds, slack, users[row], items, known, values,
            kept, found[row],
        )  # fmt: skip
    return -1


def sweep(
    block: FloatArray,
    codes: IntArray,
    edges: IntArray,
    direction: FloatArray,
    settings: FloatArray,
    n: int,
    products: tuple[FloatArray, FloatArray, FloatArray, FloatArray] | None = None,
    safe: bool = False,
) -> tuple[IntArray, int | None]:
    """Return the best items, int32 [rows, settings, n], padded with -1, and the row of a NaN or None.

    Args:
        block: scores of all items, float32 [rows, items], -inf for items that must not be listed.
        codes: code of the item in each column, int32 [items].
        edges: first column of each group of neighbouring columns, and the number of columns at the end, int64.
        direction: direction of the item in each column, float64 [items].
        settings: multiples of the direction, float64 [settings].
        n: length of the lists.
        products: for scores that are inner products, the vectors of the rows, the vectors of all items by code, the
            bias of the item in each column, and by how much the scores of each row may differ from the exact ones. The
            lists then follow the exact scores.
        safe: whether it is known that no score is NaN, so that nothing has to be checked.
    """
    found = np.empty((len(block), len(settings), n), np.int32)
    exact = products is not None
    empty = np.empty((len(block), 0), np.float32)
    users, items, bias, margins = products or (
        empty, empty, np.zeros(len(codes), np.float32), np.zeros(len(block)),
    )  # fmt: skip
    row = _sweep(block, codes, edges, direction, bias, settings, users, items, exact, margins, safe, found)
    return found, None if row < 0 else row
