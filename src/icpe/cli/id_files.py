"""Files with users, items or histories that `icpe recommend` takes."""

from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np
import polars as pl

from icpe import columns as col
from icpe.data.ids import INTEGER
from icpe.data.interactions import Interactions
from icpe.data.readers import Columns, ExpectedColumns, read_table
from icpe.data.readers.text_lines import first_line, read_lines
from icpe.errors import DataError
from icpe.types import IntArray

_WHAT = {col.USER: "users", col.ITEM: "items"}


@dataclass(frozen=True)
class IdFile:
    """Ids of a file, each once.

    Attributes:
        known: the ids that the model knows, in the order of the file.
        unknown: the other ids, as text.
    """

    known: pl.Series
    unknown: pl.Series


def read_ids(path: Path, flag: str, column: str, among: Interactions, columns: Columns | None) -> IdFile:
    """Return the ids in a file. A line on standard error says how many of them the model does not know.

    Args:
        path: a table with the column, or a ``.txt`` file with one id per line.
        flag: the flag that named the file, for messages.
        column: ``user_id`` or ``item_id``.
        among: the training data of the model.
        columns: our column name → the name in the file.

    Raises:
        DataError: the file cannot be read or lacks the column.
    """
    if path.suffix == ".txt":
        first_line(path)  # raises if the file holds no text
        texts = pl.Series([line.strip() for line in read_lines(path) if line and line.strip()], dtype=pl.String)
    else:
        mapping = {ours: theirs for ours, theirs in (columns or {}).items() if ours == column}
        texts = read_table(path, mapping, expected=ExpectedColumns((column,), (column,))).frame[column]
    texts = texts.cast(pl.String).drop_nulls().unique(maintain_order=True)
    codes = known_codes(texts, column, among)
    found = IdFile(_ids(column, among).gather(codes[codes >= 0]), texts.filter(pl.Series(codes < 0)))
    _report(f"{flag} {path}", found.unknown, len(texts), column, among)
    return found


def read_histories(path: Path, among: Interactions, columns: Columns | None) -> tuple[pl.Series, list[IntArray]]:
    """Return the users of a log, and for each of them the codes of the items in it that the model knows.

    A line on standard error says how many items the model does not know. A history is empty if it knows none of them.

    Raises:
        DataError: the file cannot be read or lacks a column.
    """
    pairs = read_table(path, columns, expected=ExpectedColumns(col.REQUIRED)).frame.select(col.REQUIRED)
    pairs = pairs.cast(pl.String).drop_nulls().unique(maintain_order=True)
    if pairs.is_empty():
        raise DataError(f"--history {path} has no rows with a user and an item")
    items = pairs[col.ITEM].unique(maintain_order=True)
    codes = known_codes(items, col.ITEM, among)
    _report(f"--history {path}", items.filter(pl.Series(codes < 0)), len(items), col.ITEM, among)
    pairs = pairs.with_columns(known_item=pl.Series(known_codes(pairs[col.ITEM], col.ITEM, among)))
    grouped = pairs.group_by(col.USER, maintain_order=True).agg(pl.col("known_item").filter(pl.col("known_item") >= 0))
    users = grouped[col.USER]
    whole = bool(users.str.contains(INTEGER).all())
    return users.cast(pl.Int64) if whole else users, [one.to_numpy() for one in grouped["known_item"]]


def known_codes(texts: pl.Series, column: str, among: Interactions) -> IntArray:
    """Return the code of each id given as text; -1 for ids that the model does not know."""
    index = among.user_index if column == col.USER else among.item_index
    if _ids(column, among).dtype == pl.String:
        return index.codes(texts)
    codes = np.full(len(texts), -1, np.int32)
    whole = texts.str.contains(INTEGER).to_numpy()
    numbers = texts.filter(pl.Series(whole)).cast(pl.Int64, strict=False)
    codes[whole] = np.where(numbers.is_null().to_numpy(), -1, index.codes(numbers.fill_null(0)))
    return codes


def _ids(column: str, among: Interactions) -> pl.Series:
    return among.users if column == col.USER else among.items


def _report(source: str, unknown: pl.Series, count: int, column: str, among: Interactions) -> None:
    if len(unknown):
        example = f"such as {unknown[0]!r}; known ids look like {_ids(column, among)[0]!r}"
        click.echo(
            f"{source}: {len(unknown):,} of {count:,} {_WHAT[column]} are not in the training data, {example}", err=True
        )
