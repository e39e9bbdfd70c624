"""Splits of logs that are larger than memory. They give the same parts and hashes as the splits in memory.

One byte per pair is in memory, its label; chronological and random splits need 16 more bytes per pair for a moment.
"""

from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from icpe import columns as col
from icpe.data.interactions import Interactions
from icpe.data.stored import StoredLog
from icpe.errors import ConfigError
from icpe.rng import stream
from icpe.split.chronological_split import NO_TRAINING, boundaries, chronological_recipe, no_times
from icpe.split.item_quota import ORDER, item_quota, latest, quota_for_test
from icpe.split.parts import TEST, TRAIN, VALID, StoredParts, check_not_empty
from icpe.split.random_split import random_labels, random_recipe
from icpe.split.settings import KINDS, ChronologicalSettings, RandomSettings, UnbiasedSettings, owner
from icpe.split.unbiased_split import unbiased_recipe
from icpe.suggest import unknown_name
from icpe.types import BoolArray, IntArray, UIntArray

BLOCK = 12_000_000  # pairs whose items are compared at a time
_DROPPED = -1  # label of a pair that no part gets


def cut_stored(log: StoredLog, folder: Path, kind: str, block: int = BLOCK, **settings: Any) -> StoredParts:
    """The parts of a log in files.

    Args:
        log: the complete, filtered log.
        folder: new folder for the pieces of the parts.
        kind: a name in ``KINDS``.
        block: number of pairs that are compared at a time.
        settings: of this kind of split; ``KINDS[kind]`` declares them.

    Raises:
        ConfigError: the kind or a setting is unknown, or the split needs the log in memory.
        DataError: the log has no timestamps although the split needs them, or a part would be empty.
    """
    if kind not in KINDS:
        raise unknown_name("split", kind, KINDS)
    parsed = KINDS[kind].parse(settings, owner(kind))
    if isinstance(parsed, UnbiasedSettings):
        return _unbiased(log, folder, parsed, block)
    if isinstance(parsed, RandomSettings):
        return _assemble(log, folder, random_labels(len(log), parsed), random_recipe(parsed))
    assert isinstance(parsed, ChronologicalSettings)
    return _chronological(log, folder, parsed)


def _unbiased(log: StoredLog, folder: Path, settings: UnbiasedSettings, block: int) -> StoredParts:
    if settings.mode == "ips":
        raise ConfigError("mode 'ips' needs the log in memory; use mode 'item_quota', or do not read in pieces")
    quota = item_quota(log.item_counts, (1 - settings.train) * len(log))
    for_test = quota_for_test(settings.seed, quota, settings.valid / (1 - settings.train))
    labels = np.zeros(len(log), np.int8)
    for items in _item_ranges(log.item_counts, block):
        rows, some, tie = _of_items(log, items, settings.seed)
        held, test = latest(some, tie, [quota[items], for_test[items]])
        labels[rows] = held.astype(np.int8) + test
    return _assemble(log, folder, labels, unbiased_recipe(settings, quota=int(quota.max())))


def _item_ranges(counts: IntArray, block: int) -> Iterator[slice]:
    """Ranges of items that have about ``block`` pairs each."""
    number = np.cumsum(counts) // block
    starts = [0, *(np.flatnonzero(np.diff(number)) + 1).tolist(), len(counts)]
    return (slice(start, stop) for start, stop in pairwise(starts))


def _of_items(log: StoredLog, items: slice, seed: int) -> tuple[IntArray, Interactions, UIntArray]:
    """The places of the pairs of some items, a log of them whose items count from 0, and the ties of their order."""
    ties = stream(seed, ORDER).bit_generator
    rows, codes, times, chances = [], [], [], []
    start = 0
    for piece in log.pieces():
        inside = np.flatnonzero((piece.item >= items.start) & (piece.item < items.stop))
        rows.append(start + inside)
        codes.append(piece.item[inside] - np.int32(items.start))
        if piece.timestamp is not None:
            times.append(piece.timestamp[inside])
        chances.append(np.asarray(ties.random_raw(len(piece)), np.uint64)[inside])
        start += len(piece)
    item = np.concatenate(codes)
    user = np.zeros(len(item), np.int32)  # users do not matter here
    some = Interactions(log.users, log.items[items], user, item, np.concatenate(times) if times else None)
    return np.concatenate(rows), some, np.concatenate(chances)


def _chronological(log: StoredLog, folder: Path, settings: ChronologicalSettings) -> StoredParts:
    if col.TIME not in log.columns:
        raise no_times(log.reading.source)
    times = np.concatenate(list(log.column(col.TIME)))
    valid_start, test_start = boundaries(times, settings)
    labels = (times >= valid_start).astype(np.int8) + (times >= test_start)
    del times
    return _assemble(log, folder, labels, chronological_recipe(settings), drop=True)


def _assemble(
    log: StoredLog, folder: Path, labels: IntArray, recipe: dict[str, Any], drop: bool = False
) -> StoredParts:
    """Write the parts that labels describe.

    A held-out pair whose user or item has no training pair is dropped, or else returns to training.
    """
    has_user, has_item = _known(log, labels)
    cold = 0
    for piece, rows in _with_rows(log):
        strange = (labels[rows] != TRAIN) & ~(has_user[piece.user] & has_item[piece.item])
        labels[rows][strange] = _DROPPED if drop else TRAIN
        cold += int(np.count_nonzero(strange))
    if not drop and cold:
        has_user, has_item = _known(log, labels)
    parts = {
        name: log.keep(folder / name, _labelled(labels, label), has_user, has_item)
        for name, label in (("train", TRAIN), ("valid", VALID), ("test", TEST))
    }
    dropped = {NO_TRAINING: cold} if drop else {}
    return check_not_empty(StoredParts(**parts, recipe=recipe, moved=0 if drop else cold, dropped=dropped, log=log))


def _labelled(labels: IntArray, label: int) -> Callable[[Interactions, slice], BoolArray]:
    return lambda _, rows: labels[rows] == label


def _known(log: StoredLog, labels: IntArray) -> tuple[BoolArray, BoolArray]:
    """The users and the items that have a training pair."""
    has_user, has_item = np.zeros(len(log.users), bool), np.zeros(len(log.items), bool)
    for piece, rows in _with_rows(log):
        training = labels[rows] == TRAIN
        has_user[piece.user[training]] = True
        has_item[piece.item[training]] = True
    return has_user, has_item


def _with_rows(log: StoredLog) -> Iterator[tuple[Interactions, slice]]:
    """The pieces of a log and the places of their pairs."""
    start = 0
    for piece in log.pieces():
        yield piece, slice(start, start + len(piece))
        start += len(piece)
