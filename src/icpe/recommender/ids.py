"""Conversion of ids that callers pass or users type on the command line."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from icpe.data.interactions import Interactions
from icpe.errors import DataError

Ids = Sequence[Any] | pl.Series


def parse_ids(texts: Sequence[str], known: pl.Series, what: str) -> list[Any]:
    """Return typed ids with the type that the log uses.

    Args:
        texts: the ids as typed.
        known: the ids of the log.
        what: "user" or "item", for the message.

    Raises:
        DataError: the ids of the log are integers and one of the texts is not.

    Example:
        >>> parse_ids(["7"], pl.Series([3, 7]), "user")
        [7]
    """
    if known.dtype == pl.String:
        return list(texts)
    ids = []
    for text in texts:
        try:
            ids.append(int(text))
        except ValueError:
            raise DataError(
                f"{what} {text!r} is not an id of this model: ids are integers, such as {known[0]}"
            ) from None
    return ids


def parse_known_users(texts: Sequence[str], log: Interactions) -> list[Any]:
    """Return typed ids of users of the log.

    Raises:
        DataError: a text is no id of the log.
    """
    users = parse_ids(texts, log.users, "user")
    for user, code in zip(users, log.user_index.codes(as_ids(users, log.users, "user")), strict=True):
        if code < 0:
            raise DataError(
                f"user {user!r} is not in the training data; known ids look like {log.users[0]!r}. Correct the id or "
                "leave it out"
            )
    return users


def as_ids(ids: Ids, known: pl.Series, what: str) -> pl.Series:
    """Return ids as a series that has the type of the known ids.

    Raises:
        DataError: the ids have another type, or one is missing. The message says which type is expected.
    """
    kind = "text" if known.dtype == pl.String else "integers"
    hint = f"{what} ids are {kind} here, such as {known[0]!r}"
    if isinstance(ids, str | bytes) or not isinstance(ids, Sequence | pl.Series | np.ndarray):
        raise DataError(f"{what}s is {ids!r}; expected a list of ids. {hint[0].upper()}{hint[1:]}")
    try:
        series = pl.Series(what, ids, strict=True)
        # A cast would turn 1.5 into 1 and "7" into 7, which are the ids of other users or items.
        texts, whole = series.dtype in (pl.String, pl.Categorical, pl.Enum), series.dtype.is_integer()
        if not ((texts if known.dtype == pl.String else whole) or series.null_count() == len(series)):
            raise TypeError(f"found {series.dtype}")
        series = series.cast(known.dtype)
    except (TypeError, pl.exceptions.PolarsError, OverflowError) as error:
        raise DataError(f"the given {what} ids have another type; {hint}") from error
    if series.null_count():
        raise DataError(f"a {what} id is missing (null); {hint}")
    return series
