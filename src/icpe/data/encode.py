"""External ids and the codes 0, 1, 2, … that stand for them inside.

Codes follow the sorted ids (integers by value, text by bytes), so that they do not depend on the order of rows.
"""

from typing import Literal, get_args

import numpy as np
import polars as pl

from icpe.data.coding import code_values
from icpe.data.readers.table import Table
from icpe.errors import ConfigError, DataError
from icpe.types import IntArray

IdType = Literal["auto", "int", "text"]

_INTEGER = r"^(0|-?[1-9][0-9]{0,18})$"  # as an integer prints itself: "007" is text, for 7 is somebody else


def encode_ids(table: Table, column: str, ids: IdType = "auto") -> tuple[pl.Series, IntArray]:
    """Distinct ids, sorted, and for each row the position of its id among them.

    Args:
        table: the log as read.
        column: ``user_id`` or ``item_id``.
        ids: ``"int"`` or ``"text"`` settles the type. ``"auto"`` keeps the type of a frame or Parquet file; in a text
            file a column of integers is integers, and mostly integers with something else between them is refused.

    Returns:
        A series of Int64 or String, and int32 [rows].

    Raises:
        DataError: null or empty ids, ids of mixed or unsuitable type.
    """
    if ids not in get_args(IdType):
        raise ConfigError(f"ids is {ids!r}; expected one of {', '.join(get_args(IdType))}")
    coded = table.coded.get(column) or code_values(_as_ids(table, column))
    distinct = coded.distinct
    if distinct.dtype == pl.String:
        _refuse_empty(table, column, distinct, coded.firsts)
        distinct = _settle_type(table, column, distinct, coded.firsts, ids)
    elif ids == "text":
        distinct = distinct.cast(pl.String)
    order = distinct.arg_sort()
    rank = np.empty(len(distinct), np.int32)
    rank[order.to_numpy()] = np.arange(len(distinct), dtype=np.int32)
    return distinct.gather(order), rank[coded.codes]


def _as_ids(table: Table, column: str) -> pl.Series:
    values = table.frame[column]
    if values.dtype == pl.Object:
        raise DataError(_mixed(table, column, values))
    if values.dtype.is_float():  # integers beside a gap become floats in pandas, and the gap becomes NaN
        values = values.fill_nan(None)
    if values.null_count():
        index = int(values.is_null().arg_true()[0])
        raise DataError(
            f"{table.where(index)}: {column!r} is missing ({values.null_count():,} rows lack it). "
            "Every row needs a user and an item: fill or remove them"
        )
    if values.dtype in (pl.String, pl.Categorical, pl.Enum):
        return values.cast(pl.String)
    if values.dtype.is_float() and bool(((values == values.floor()) & (values.abs() < 2**53)).all()):
        return values.cast(pl.Int64)
    if not values.dtype.is_integer():
        raise DataError(f"{table.source}: {column!r} has the type {values.dtype}; expected integers or text")
    integers = values.cast(pl.Int64, strict=False)
    return integers if integers.null_count() == 0 else values.cast(pl.String)  # beyond 64 bits they are names


def _mixed(table: Table, column: str, values: pl.Series) -> str:
    kinds: dict[str, int] = {}
    for index, value in enumerate(values.to_list()):
        kinds.setdefault(type(value).__name__, index)
    if len(kinds) < 2:
        return f"{table.source}: {column!r} holds {next(iter(kinds))} objects; expected integers or text"
    (one, first), (other, second) = list(kinds.items())[:2]
    return (
        f"{column!r} mixes {one} ({table.where(first)}) and {other} ({table.where(second)}). "
        "Turn all of them into text or all into integers first"
    )


def _refuse_empty(table: Table, column: str, distinct: pl.Series, firsts: IntArray) -> None:
    empty = (distinct.str.strip_chars() == "").arg_true()
    if len(empty):
        where = table.where(int(firsts[empty[0]]))
        raise DataError(f"{where}: {column!r} is empty. Every row needs a user and an item")


def _settle_type(table: Table, column: str, distinct: pl.Series, firsts: IntArray, ids: IdType) -> pl.Series:
    if ids == "text" or (ids == "auto" and not table.untyped):
        return distinct
    numbers = distinct.str.contains(_INTEGER)
    integers = distinct.set(~numbers, None).cast(pl.Int64, strict=False)
    if integers.null_count() == 0:
        return integers
    digits = distinct.str.contains(r"^-?[0-9]+$")  # zero-padded or too long for an integer: text all the same
    # A few numbers among names happen (hexadecimal ids, shop articles); a few names among numbers are a mistake.
    if ids == "int" or (not digits.all() and 2 * int(numbers.sum()) > len(distinct)):
        odd = int((integers.is_null() if ids == "int" else ~digits).arg_true()[0])  # values are in order of appearance
        raise DataError(
            f"{table.where(int(firsts[odd]))}: {column!r} is {distinct[odd]!r}, but "
            f"{'integers are asked for' if ids == 'int' else 'most others are integers'}. "
            "Correct it, or pass ids='text' (command line: --ids text) if ids are names"
        )
    return distinct
