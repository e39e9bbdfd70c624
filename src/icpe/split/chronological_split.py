"""The chronological split: one moment in time separates training from validation, another one test."""

from typing import Any

import numpy as np

from icpe.data.interactions import Interactions
from icpe.errors import DataError
from icpe.split.parts import Parts, check_not_empty, recode
from icpe.split.settings import ChronologicalSettings, owner
from icpe.types import IntArray

NO_TRAINING = "user or item without training data"  # the reason for dropping a pair, in the manifest


def chronological(log: Interactions, train: float = 0.8, valid: float = 0.1) -> Parts:
    """Parts by time: training ends before validation begins, and validation ends before test begins.

    Interactions at the same time stay together, so the shares can differ a little from the settings. Held-out
    interactions of users or items without training data are dropped and counted, because moving them to training would
    put the future there.

    Args:
        log: the complete, filtered log, with timestamps.
        train: share for training.
        valid: share for validation; the rest is test.

    Raises:
        ConfigError: a setting is wrong.
        DataError: the log has no timestamps, or a part would be empty.
    """
    settings = ChronologicalSettings.parse({"train": train, "valid": valid}, owner("chronological"))
    if log.timestamp is None:
        raise no_times(log.reading.source)
    valid_start, test_start = boundaries(log.timestamp, settings)
    training = log.keep(log.timestamp < valid_start).compact()
    held = [
        log.keep((log.timestamp >= valid_start) & (log.timestamp < test_start)),
        log.keep(log.timestamp >= test_start),
    ]
    validation, testing = (recode(part, training) for part in held)
    dropped = {NO_TRAINING: sum(map(len, held)) - len(validation) - len(testing)}
    recipe = chronological_recipe(settings)
    return check_not_empty(Parts(training, validation, testing, recipe, dropped=dropped, log=log))


def chronological_recipe(settings: ChronologicalSettings) -> dict[str, Any]:
    """The kind of split and its settings, as in the manifest."""
    return {"split": "chronological", "train": settings.train, "valid": settings.valid}


def no_times(source: str) -> DataError:
    """The error for a log without timestamps."""
    return DataError(
        f"{source} has no timestamps, which a chronological split needs. Name their column: pass "
        "columns={'timestamp': NAME} (command line: --column timestamp=NAME), or choose another split"
    )


def boundaries(times: IntArray, settings: ChronologicalSettings) -> tuple[int, int]:
    """The times at which validation and test begin."""
    shares = settings.train, settings.train + settings.valid
    places = [min(round(share * len(times)), len(times) - 1) for share in shares]
    ordered = np.partition(times, places)
    first, second = (_boundary(times, ordered[place], share) for place, share in zip(places, shares, strict=True))
    return first, second


def _boundary(times: IntArray, moment: int, share: float) -> int:
    """The moment or the next one, so that the share of the interactions before it is nearer to the given one."""
    before, through = np.count_nonzero(times < moment), np.count_nonzero(times <= moment)
    nearer_before = share * len(times) - before <= through - share * len(times)
    return int(moment if nearer_before else moment + 1)
