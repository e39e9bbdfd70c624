"""The chronological split: one moment in time separates training from validation, another one test."""

import numpy as np

from icpe.data.interactions import Interactions
from icpe.errors import DataError
from icpe.split.parts import Parts, check_not_empty, recode
from icpe.split.settings import ChronologicalSettings, owner
from icpe.types import IntArray


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
    train, valid = settings.train, settings.valid
    if log.timestamp is None:
        raise DataError(
            f"{log.reading.source} has no timestamps, which a chronological split needs. Name their column with "
            "columns={'timestamp': NAME} (command line: --column timestamp=NAME), or choose another split"
        )
    ordered = np.sort(log.timestamp)
    valid_start, test_start = _boundary(ordered, train), _boundary(ordered, train + valid)
    training = log.keep(log.timestamp < valid_start).compact()
    held = [
        log.keep((log.timestamp >= valid_start) & (log.timestamp < test_start)),
        log.keep(log.timestamp >= test_start),
    ]
    validation, testing = (recode(part, training) for part in held)
    dropped = {"user or item without training data": sum(map(len, held)) - len(validation) - len(testing)}
    recipe = {"split": "chronological", "train": train, "valid": valid}
    return check_not_empty(Parts(training, validation, testing, recipe, dropped=dropped, log=log))


def _boundary(ordered: IntArray, share: float) -> int:
    """The time before which about this share of the interactions lies."""
    moment = ordered[min(round(share * len(ordered)), len(ordered) - 1)]
    before, through = np.searchsorted(ordered, moment, "left"), np.searchsorted(ordered, moment, "right")
    nearer_before = share * len(ordered) - before <= through - share * len(ordered)
    return int(moment if nearer_before else moment + 1)
