"""Parts that already exist, such as the published split of a data set."""

from typing import Any

import numpy as np

from icpe.data.interactions import Interactions
from icpe.errors import DataError
from icpe.split.parts import Parts, check_not_empty, recode
from icpe.types import IntArray


def given(train: Any, valid: Any = None, test: Any = None, **options: Any) -> Parts:
    """Parts as they are given.

    Users and items are those of the training part. Validation and test pairs with other users or items are dropped,
    and so are pairs that an earlier part contains. Nothing is moved to training, because that would train on test data.

    Args:
        train: a log, or anything that :meth:`Interactions.read` takes.
        valid: the same; None for no validation.
        test: the same; None for no test.
        options: further arguments of :meth:`Interactions.read`.

    Raises:
        DataError: a part cannot be read or would be empty.
    """
    training = train if isinstance(train, Interactions) else Interactions.read(train, **options)
    training = training.compact()
    held = [_open(source, training, options) for source in (valid, test)]
    known = [recode(part, training) for part in held]
    validation = _without(known[0], training)
    testing = _without(_without(known[1], training), validation)
    dropped = {
        "user or item without training data": sum(map(len, held)) - sum(map(len, known)),
        "pair is in an earlier part too": sum(map(len, known)) - len(validation) - len(testing),
    }
    if valid is not None and len(validation) == 0:
        raise _no_validation(len(held[0]), len(known[0]))
    parts = Parts(training, validation, testing, {"split": "given", "valid": int(valid is not None)}, dropped=dropped)
    return parts if test is None else check_not_empty(parts)


def _no_validation(given_pairs: int, known_pairs: int) -> DataError:
    """The error for a validation part that leaves nothing to validate on."""
    return DataError(
        f"the valid part is empty: of its {given_pairs:,} interactions, {given_pairs - known_pairs:,} have a user or "
        f"an item without training data, and {known_pairs:,} are in the training part too. Without validation, "
        "training would not stop early and the dial would stay at rest. Check that both files use the same ids, or "
        "leave the validation part out"
    )


def _open(source: Any, training: Interactions, options: dict[str, Any]) -> Interactions:
    if source is None:
        return training.keep(np.zeros(len(training), bool))
    if isinstance(source, Interactions):
        return source
    return Interactions.read(source, **{**options, "item_info": None, "item_columns": None, "at_least": 1})


def _without(part: Interactions, earlier: Interactions) -> Interactions:
    return part.keep(~np.isin(_keys(part), _keys(earlier)))


def _keys(part: Interactions) -> IntArray:
    return part.user.astype(np.int64) * len(part.items) + part.item
