"""External ids and the internal codes 0, 1, 2, … that replace them.

Codes follow the order of the sorted ids (integers by value, text by bytes), so they do not depend on the order of rows.
"""

from typing import Literal, get_args

import numpy as np
import polars as pl

from icpe.data.factorize import factorize
from icpe.data.readers.table import Table
from icpe.errors import ConfigError, DataError
from icpe.shown import shortened
from icpe.spreadsheet import plain_texts
from icpe.types import IntArray

IdType = Literal["auto", "int", "text"]

INTEGER = r"^(0|-?[1-9][0-9]{0,18})$"  # the canonical form of an integer: "007" is text, because 7 is another id


def encode_ids(table: Table, column: str, ids: IdType = "auto") -> tuple[pl.Series, IntArray]:
    """The distinct ids, sorted, and for each row the position of its id among them.

    Args:
        table: the log as read.
        column: ``user_id`` or ``item_id``.
        ids: ``"int"`` or ``"text"`` forces the type. ``"auto"`` keeps the type of a frame or Parquet file. In a text
            file it treats a column of integers as integers, and rejects a column that is mostly but not completely
            integers.

    Returns:
        A series of Int64 or String, and int32 [rows].

    Raises:
        DataError: an id is null or empty, or ids have mixed or unsuitable types.
    """
    if ids not in get_args(IdType):
        raise ConfigError(f"ids is {ids!r}; expected one of {', '.join(get_args(IdType))}")
    column_codes = table.factorized.get(column) or factorize(_as_ids(table, column))
    distinct = column_codes.distinct
    if distinct.dtype == pl.String:
        _check_not_empty(table, column, distinct, column_codes.first_rows)
        if table.untyped:
            distinct = _without_apostrophes(table, column, distinct, column_codes.first_rows)
        distinct = _convert(table, column, distinct, column_codes.first_rows, ids)
    elif ids == "text":
        distinct = distinct.cast(pl.String)
    order = distinct.arg_sort()
    rank = np.empty(len(distinct), np.int32)
    rank[order.to_numpy()] = np.arange(len(distinct), dtype=np.int32)
    return distinct.gather(order), rank[column_codes.codes]


def _as_ids(table: Table, column: str) -> pl.Series:
    """The column as integers or text."""
    values = table.frame[column]
    if values.dtype == pl.Object:
        raise DataError(_mixed_types(table, column, values))
    if values.dtype.is_float():  # pandas turns integers with gaps into floats, and the gaps into NaN
        values = values.fill_nan(None)
    if values.null_count():
        index = int(values.is_null().arg_true()[0])
        lacking = values.null_count()
        how_many = f" ({lacking:,} rows lack it)" if lacking > 1 else ""
        raise DataError(
            f"{table.where(index)}: {column!r} is missing{how_many}. "
            "Every row needs a user and an item: add the missing ids or remove the rows"
        )
    if values.dtype in (pl.String, pl.Categorical, pl.Enum):
        return values.cast(pl.String)
    if values.dtype.is_float() and bool(((values == values.floor()) & (values.abs() < 2**53)).all()):
        return values.cast(pl.Int64)
    if not values.dtype.is_integer():
        raise DataError(f"{table.source}: {column!r} has the type {values.dtype}; expected integers or text")
    integers = values.cast(pl.Int64, strict=False)
    return integers if integers.null_count() == 0 else values.cast(pl.String)  # integers beyond 64 bits become text


def _mixed_types(table: Table, column: str, values: pl.Series) -> str:
    kinds: dict[str, int] = {}
    for index, value in enumerate(values.to_list()):
        kinds.setdefault(type(value).__name__, index)
    if len(kinds) < 2:
        return f"{table.source}: {column!r} holds {next(iter(kinds))} objects; expected integers or text"
    (one, first), (other, second) = list(kinds.items())[:2]
    return (
        f"{column!r} mixes {one} ({table.where(first)}) and {other} ({table.where(second)}). "
        "Convert all of them to text or all of them to integers"
    )


def _check_not_empty(table: Table, column: str, distinct: pl.Series, first_rows: IntArray) -> None:
    empty = (distinct.str.strip_chars() == "").arg_true()
    if len(empty):
        where = table.where(int(first_rows[empty[0]]))
        raise DataError(f"{where}: {column!r} is empty. Every row needs a user and an item")


def _without_apostrophes(table: Table, column: str, distinct: pl.Series, first_rows: IntArray) -> pl.Series:
    """The ids of a text file without the apostrophes that keep spreadsheets from running them as formulas."""
    plain = plain_texts(distinct)
    twice = plain.is_duplicated() & (plain != distinct)
    if twice.any():
        odd = int(twice.arg_true()[0])
        raise DataError(
            f"{table.where(int(first_rows[odd]))}: {column!r} is {shortened(repr(distinct[odd]))}, which stands for "
            f"{shortened(repr(plain[odd]))} in a file made for spreadsheets, but the file has that id too. Rename one"
        )
    return plain


def _convert(table: Table, column: str, distinct: pl.Series, first_rows: IntArray, ids: IdType) -> pl.Series:
    """The distinct ids of a text column as integers if the rules of :func:`encode_ids` say so, else as they are."""
    if ids == "text" or (ids == "auto" and not table.untyped):
        return distinct
    numbers = distinct.str.contains(INTEGER)
    integers = distinct.set(~numbers, None).cast(pl.Int64, strict=False)
    if integers.null_count() == 0:
        return integers
    digits = distinct.str.contains(r"^-?[0-9]+$")  # also zero-padded or too long for an integer, which is valid text
    # A few numbers among names are common (hexadecimal ids, article numbers); a few names among numbers are a mistake.
    if ids == "int" or (not digits.all() and 2 * int(numbers.sum()) > len(distinct)):
        odd = int((integers.is_null() if ids == "int" else ~digits).arg_true()[0])  # the first one in the file
        reason = "ids='int' requires integers" if ids == "int" else "most others are integers"
        raise DataError(
            f"{table.where(int(first_rows[odd]))}: {column!r} is {shortened(repr(distinct[odd]))}, but {reason}. "
            "Correct it, or pass ids='text' (command line: --ids text) if ids are names"
        )
    return distinct
