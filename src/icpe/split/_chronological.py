"""One cut in time for everybody."""

import numpy as np

from icpe.data.interactions import Interactions
from icpe.errors import DataError
from icpe.split.parts import Parts, check_shares, recode, refuse_empty
from icpe.types import IntArray


def chronological(log: Interactions, train: float = 0.8, valid: float = 0.1) -> Parts:
    """Split by time: training ends before validation begins, validation ends before test begins.

    Equal times stay together, so shares may differ a little from what is asked. Held-out interactions of users or
    items without training data are dropped and counted: to move them into training would put the future there.

    Raises:
        DataError: the log has no timestamps.
    """
    check_shares(train, valid)
    if log.timestamp is None:
        raise DataError(
            f"{log.reading.source} has no timestamps, which a chronological split needs. Name their column "
            "(command line: --column timestamp=NAME), or take another split"
        )
    ordered = np.sort(log.timestamp)
    until, since = _cut(ordered, train), _cut(ordered, train + valid)
    training = log.keep(log.timestamp < until).compact()
    held = [log.keep((log.timestamp >= until) & (log.timestamp < since)), log.keep(log.timestamp >= since)]
    validation, testing = (recode(part, training) for part in held)
    dropped = {"user or item without training data": sum(map(len, held)) - len(validation) - len(testing)}
    recipe = {"split": "chronological", "train": train, "valid": valid}
    return refuse_empty(Parts(training, validation, testing, recipe, dropped=dropped, log=log))


def _cut(ordered: IntArray, share: float) -> int:
    """The time before which about this share lies; times equal to it belong to what follows."""
    moment = ordered[min(round(share * len(ordered)), len(ordered) - 1)]
    before, through = np.searchsorted(ordered, moment, "left"), np.searchsorted(ordered, moment, "right")
    nearer_before = share * len(ordered) - before <= through - share * len(ordered)
    return int(moment if nearer_before else moment + 1)
