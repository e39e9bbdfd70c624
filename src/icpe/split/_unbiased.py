"""Held-out interactions spread evenly over items, so that a model cannot score by popularity."""

from collections.abc import Iterator
from typing import Any, Literal, get_args

import numpy as np

from icpe.data.interactions import Interactions
from icpe.errors import ConfigError
from icpe.rng import random_keys
from icpe.split.parts import TEST, VALID, Parts, assemble, check_shares
from icpe.types import BoolArray, IntArray, UIntArray

Mode = Literal["item_quota", "ips"]

_BLOCK = 1 << 18
_TIE_BITS = 12  # fewer would leave too much to chance where times are equal


def unbiased(
    log: Interactions,
    seed: int = 0,
    mode: Mode = "item_quota",
    train: float = 0.8,
    valid: float = 0.1,
    cap: float | None = None,
) -> Parts:
    """Split so that every item has about the same number of held-out interactions.

    ``item_quota`` holds out the latest interactions of every item, the same number q for all that have enough: the
    smallest q with Σ_i min(q, ⌊0.9·N_i⌋, N_i − 1) ≥ the held-out share. The earlier ones go to validation, the later
    to test. Without timestamps the order is random.

    ``ips`` draws the held-out interactions one by one with weight 1/N_i, as DICE does; which of them go to validation
    is random.

    In both, held-out interactions whose user or item has no training data go back to training; the manifest counts
    them.

    Args:
        log: the complete, filtered log.
        seed: of every random choice.
        mode: see above.
        train: share for training.
        valid: share for validation; the rest is test.
        cap: ``ips`` only: limit weights to this percentile of the distinct weights, which protects rare items.

    Example:
        >>> pairs = {"user_id": [one // 5 for one in range(100)], "item_id": list(range(10)) * 10}
        >>> log = Interactions.read(pairs)
        >>> unbiased(log).manifest["counts"]["test"]["interactions"]
        10
    """
    if mode not in get_args(Mode):
        raise ConfigError(f"split mode is {mode!r}; expected one of {', '.join(get_args(Mode))}")
    if cap is not None and (mode != "ips" or not 0 < cap <= 100):
        raise ConfigError(f"cap={cap} is a percentile between 0 and 100, for mode 'ips' only")
    check_shares(train, valid)
    recipe: dict[str, Any] = {"split": "unbiased", "mode": mode, "seed": int(seed), "train": train, "valid": valid}
    if mode == "ips":
        return assemble(log, _ips(log, seed, train, valid, cap), {**recipe, "cap": cap})
    quota = _quota(log.item_counts, (1 - train) * len(log))
    return assemble(log, _item_quota(log, seed, quota, valid / (1 - train)), {**recipe, "quota": int(quota.max())})


def _quota(counts: IntArray, wanted: float) -> IntArray:
    """Held-out interactions per item for the smallest common quota that holds out at least ``wanted`` in all."""
    limits = np.minimum(9 * counts // 10, counts - 1)
    low, high = 0, int(limits.max())
    while low < high:
        middle = (low + high) // 2
        if np.minimum(middle, limits).sum() >= wanted - 1e-6:  # 0.2 · R may be a whole number but for rounding
            high = middle
        else:
            low = middle + 1
    return np.minimum(low, limits)


def _item_quota(log: Interactions, seed: int, quota: IntArray, valid_share: float) -> IntArray:
    # A quota of 5 gives 2 or 3 to validation, by a coin for each item.
    coin = random_keys(seed, "split/coin", len(quota)) / 2.0**64
    for_valid = np.floor(quota * valid_share + coin + 1e-9).astype(np.int64)
    tie = random_keys(seed, "split/order", len(log))
    held, test = latest(log, tie, [quota, quota - for_valid])
    return held.astype(np.int8) + test  # what is in test is held out too: 0 train, 1 valid, 2 test


def latest(log: Interactions, tie: UIntArray, numbers: list[IntArray]) -> list[BoolArray]:
    """For each of ``numbers`` [items] the mask [pairs] of every item's so many latest pairs.

    Pairs of equal time are ordered by ``tie``, uint64 [pairs].
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
    return latest_by_sorting(log, tie, numbers)  # no room for all in one integer, or equal keys at a border


def _latest_keys(log: Interactions, tie: UIntArray) -> IntArray | None:
    """Item, time and tie in one integer each, from the highest bits to the lowest: sorting these is vectorised."""
    start, unit, time_bits = 0, 1, 0
    if log.timestamp is not None:
        start = int(log.timestamp.min())
        unit = _coarsest_unit(log.timestamp, start)
        time_bits = max((int(log.timestamp.max()) - start) // unit, 1).bit_length()
    tie_bits = 63 - max(len(log.items) - 1, 1).bit_length() - time_bits
    if tie_bits < _TIE_BITS:
        return None
    keys = np.empty(len(log), np.int64)
    for rows in _blocks(len(log)):
        block = log.item[rows].astype(np.int64) << (time_bits + tie_bits)
        if log.timestamp is not None:
            block |= (log.timestamp[rows] - start) // unit << tie_bits
        np.bitwise_or(block, (tie[rows] >> np.uint64(64 - tie_bits)).view(np.int64), out=keys[rows])
    return keys


def _coarsest_unit(times: IntArray, start: int) -> int:
    """A day, a second, a millisecond or a microsecond: the largest in which all times since ``start`` are whole."""
    units = (86_400_000_000, 1_000_000, 1_000, 1)
    return next(unit for unit in units if not any(((times[rows] - start) % unit).any() for rows in _blocks(len(times))))


def _blocks(rows: int) -> Iterator[slice]:
    """Slices that cover all rows; work on them needs little memory beside the result, which is also faster."""
    return (slice(start, start + _BLOCK) for start in range(0, rows, _BLOCK))


def latest_by_sorting(log: Interactions, tie: UIntArray, numbers: list[IntArray]) -> list[BoolArray]:
    """:func:`latest` by a plain sort: slower, without limits."""
    time = np.zeros(len(log), np.int64) if log.timestamp is None else log.timestamp
    order = np.lexsort((tie, time, log.item))
    places = np.empty(len(log), np.int64)
    places[order] = np.arange(len(log))
    ends = np.cumsum(log.item_counts)
    return [places >= (ends - number)[log.item] for number in numbers]


def _ips(log: Interactions, seed: int, train: float, valid: float, cap: float | None) -> IntArray:
    weight = 1.0 / log.item_counts
    if cap is not None:
        weight = np.minimum(weight, np.percentile(np.unique(weight), cap))
    # The first arrivals of independent exponential clocks are a draw without replacement with these weights.
    uniform = (random_keys(seed, "split/draw", len(log)) >> np.uint64(11)).astype(np.float64)
    arrival = -np.log((uniform + 0.5) * 2.0**-53) / weight[log.item]
    held = round((1 - train) * len(log))
    rows = np.argpartition(arrival, held)[:held] if held < len(log) else np.arange(len(log))
    rows.sort()
    shuffled = rows[np.argsort(random_keys(seed, "split/halves", held), kind="stable")]
    part = np.zeros(len(log), np.int8)
    part[shuffled] = TEST
    part[shuffled[: round(held * valid / (1 - train))]] = VALID
    return part
