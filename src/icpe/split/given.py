"""Parts somebody else has made, such as the published split of a data set."""

from typing import Any

import numpy as np

from icpe.data.interactions import Interactions
from icpe.split.parts import Parts, recode, refuse_empty
from icpe.types import IntArray


def given(train: Any, valid: Any = None, test: Any = None, **options: Any) -> Parts:
    """Take parts as they are.

    Users and items are those of the training part; validation and test pairs with others are dropped, as are pairs
    that an earlier part holds already. Nothing is ever moved into training, for that would train on test data.

    Args:
        train: a log, or anything :meth:`Interactions.read` takes.
        valid: likewise; None for no validation.
        test: likewise; None for no test.
        options: for :meth:`Interactions.read`.
    """
    training = train if isinstance(train, Interactions) else Interactions.read(train, **options)
    training = training.compact()
    made, unknown, repeated = [training], 0, 0
    for source in (valid, test):
        part = _open(source, training, options)
        known = recode(part, training)
        unknown += len(part) - len(known)
        fresh = ~np.isin(_keys(known), np.concatenate([_keys(earlier) for earlier in made]))
        repeated += int((~fresh).sum())
        made.append(known.keep(fresh))
    dropped = {"user or item without training data": unknown, "pair is in an earlier part too": repeated}
    parts = Parts(*made, {"split": "given", "valid": int(valid is not None)}, dropped=dropped)
    return parts if test is None else refuse_empty(parts)


def _open(source: Any, training: Interactions, options: dict[str, Any]) -> Interactions:
    if source is None:
        return training.keep(np.zeros(len(training), bool))
    if isinstance(source, Interactions):
        return source
    return Interactions.read(source, **{**options, "item_info": None, "at_least": 1})


def _keys(part: Interactions) -> IntArray:
    return part.user.astype(np.int64) * len(part.items) + part.item
