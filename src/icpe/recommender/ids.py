"""Conversion of ids that users type on the command line."""

from collections.abc import Sequence
from typing import Any

import polars as pl

from icpe.errors import DataError


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
