"""The same number of held-out interactions for every item that has enough, and the latest interactions of items."""

from collections.abc import Iterator

import numpy as np

from icpe.data.interactions import Interactions
from icpe.rng import random_keys
from icpe.types import BoolArray, IntArray, UIntArray

ORDER = "split/order"  # the random stream that orders interactions of equal times
_BLOCK = 1 << 18
_MIN_TIE_BITS = 12  # with fewer bits the random order of equal times would depend too much on chance collisions


def item_quota(counts: IntArray, wanted: float) -> IntArray:
    """Number of held-out interactions of each item, int64 [items].

    It is the smallest common quota that holds out at least ``wanted`` interactions in total. An item with N
    interactions gives at most min(⌊0.9·N⌋, N − 1).

    Example:
        >>> item_quota(np.array([10, 10, 3]), 6).tolist()
        [2, 2, 2]
    """
    limits = np.minimum(9 * counts // 10, counts - 1)
    low, high = 0, int(limits.max())
    while low < high:
        middle = (low + high) // 2
        if np.minimum(middle, limits).sum() >= wanted - 1e-6:  # tolerates the rounding error of shares such as 0.2
            high = middle
        else:
            low = middle + 1
    return np.minimum(low, limits)


def label_by_quota(log: Interactions, seed: int, quota: IntArray, valid_share: float) -> IntArray:
    """Label of each pair, int8 [pairs]: 0 train, 1 valid, 2 test.

    Args:
        log: the log to split.
        seed: of every random choice.
        quota: number of held-out pairs of each item.
        valid_share: share of the held-out pairs that go to validation.
    """
    tie = random_keys(seed, ORDER, len(log))
    held, test = latest(log, tie, [quota, quota_for_test(seed, quota, valid_share)])
    return held.astype(np.int8) + test  # a test pair is held out too, so it gets 2


def quota_for_test(seed: int, quota: IntArray, valid_share: float) -> IntArray:
    """Number of test interactions of each item, int64 [items]; the rest of its quota goes to validation."""
    # A random number per item decides whether a quota of 5 gives 2 or 3 pairs to validation.
    chance = random_keys(seed, "split/coin", len(quota)) / 2.0**64
    return np.asarray(quota - np.floor(quota * valid_share + chance + 1e-9).astype(np.int64))


def latest(log: Interactions, tie: UIntArray, numbers: list[IntArray]) -> list[BoolArray]:
    """For each array in ``numbers``, the mask [pairs] of that many latest pairs of each item.

    Args:
        log: the log.
        tie: uint64 [pairs], which orders pairs of equal time.
        numbers: arrays int64 [items].
    """
    keys = _latest_keys(log, tie)
    if keys is not None:
        ordered, ends, never = np.sort(keys), np.cumsum(log.item_counts), np.iinfo(np.int64).max
        found = [np.empty(len(log), bool) for _ in numbers]
        for number, mask in zip(numbers, found, strict=True):
            border = np.where(number > 0, ordered[np.minimum(ends - number, len(log) - 1)], never)
            for rows in _blocks(len(log)):
                np.greater_equal(keys[rows], border[log.item[rows]], out=mask[rows])
        if all(mask.sum() == number.sum() for mask, number in zip(found, numbers, strict=True)):
            return found
    return latest_by_sorting(log, tie, numbers)  # the key does not fit into 64 bits, or keys are equal at a border


def latest_by_sorting(log: Interactions, tie: UIntArray, numbers: list[IntArray]) -> list[BoolArray]:
    """The result of :func:`latest`, computed by a plain sort, which is slower but has no limits."""
    time = np.zeros(len(log), np.int64) if log.timestamp is None else log.timestamp
    order = np.lexsort((tie, time, log.item))
    places = np.empty(len(log), np.int64)
    places[order] = np.arange(len(log))
    ends = np.cumsum(log.item_counts)
    return [places >= (ends - number)[log.item] for number in numbers]


def _latest_keys(log: Interactions, tie: UIntArray) -> IntArray | None:
    """Item, time and tie packed into one integer per pair, highest bits first, because sorting these is vectorised."""
    start, unit, time_bits = 0, 1, 0
    if log.timestamp is not None:
        start = int(log.timestamp.min())
        unit = _coarsest_unit(log.timestamp, start)
        time_bits = max((int(log.timestamp.max()) - start) // unit, 1).bit_length()
    tie_bits = 63 - max(len(log.items) - 1, 1).bit_length() - time_bits
    if tie_bits < _MIN_TIE_BITS:
        return None
    keys = np.empty(len(log), np.int64)
    for rows in _blocks(len(log)):
        block = log.item[rows].astype(np.int64) << (time_bits + tie_bits)
        if log.timestamp is not None:
            block |= (log.timestamp[rows] - start) // unit << tie_bits
        np.bitwise_or(block, (tie[rows] >> np.uint64(64 - tie_bits)).view(np.int64), out=keys[rows])
    return keys


def _coarsest_unit(times: IntArray, start: int) -> int:
    """The largest of day, second, millisecond and microsecond in which all times since ``start`` are whole numbers."""
    units = (86_400_000_000, 1_000_000, 1_000, 1)
    return next(unit for unit in units if not any(((times[rows] - start) % unit).any() for rows in _blocks(len(times))))


def _blocks(rows: int) -> Iterator[slice]:
    """Slices that cover all rows. Working block by block needs little extra memory, which also makes it faster."""
    return (slice(start, start + _BLOCK) for start in range(0, rows, _BLOCK))
