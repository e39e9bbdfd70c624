"""The content hash of a log: equal for equal content on every machine, in every file format, in memory or in files."""

import hashlib
from collections.abc import Iterable
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

_KINDS = ("<i4", "<i4", "<i8", "<f8")  # users, items, times and weights


def content_hash(users: pl.Series, items: pl.Series, *columns: Iterable[NDArray[Any]] | None) -> str:
    """SHA-256 of a log.

    Args:
        users: user ids by code.
        items: item ids by code.
        columns: user codes, item codes, times and weights of the pairs, each in pieces; None for a missing column.

    Example:
        >>> content_hash(pl.Series([1]), pl.Series([2]), [np.array([0])], [np.array([0])], None, None)[:8]
        'b7cfe74b'
    """
    digest = hashlib.sha256()
    for ids in (users, items):
        if ids.dtype == pl.String:
            digest.update(ids.str.len_bytes().to_numpy().astype("<u4").tobytes())
            digest.update("".join(ids.to_list()).encode())
        else:
            digest.update(ids.to_numpy().astype("<i8").tobytes())
    for pieces, kind in zip(columns, _KINDS, strict=True):
        for piece in [] if pieces is None else pieces:
            digest.update(np.ascontiguousarray(piece, dtype=kind).data)
        if pieces is None:
            digest.update(b"none")
    return digest.hexdigest()
