"""Lists on their way out: with names, into files."""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import polars as pl
from polars.io.plugins import register_io_source

from icpe import columns as col
from icpe.data.interactions import Interactions
from icpe.errors import ConfigError, DataError
from icpe.files import write_atomically


def typed_ids(words: Sequence[str], known: pl.Series, what: str) -> list[Any]:
    """Ids typed on the command line, as the log has them."""
    if known.dtype == pl.String:
        return list(words)
    ids = []
    for word in words:
        try:
            ids.append(int(word))
        except ValueError:
            raise DataError(
                f"{what} {word!r} is not an id of this model: ids are integers, such as {known[0]}"
            ) from None
    return ids


def with_names(lists: pl.DataFrame, log: Interactions) -> pl.DataFrame:
    """The lists with a column ``name``, where items have names."""
    if log.item_info is None or col.NAME not in log.item_info.columns:
        return lists
    return lists.with_columns(log.item_names(lists[col.ITEM]).alias(col.NAME))


def write_lists(pieces: Iterable[pl.DataFrame], path: Path) -> int:
    """Write lists to Parquet or CSV, by suffix; returns the number of rows.

    Lists are written as they come, so memory holds a few pieces and not all of them.
    """
    if path.suffix not in (".parquet", ".csv"):
        raise ConfigError(f"{path} should end in .parquet or .csv")
    rows = 0

    def counted() -> Iterable[pl.DataFrame]:
        nonlocal rows
        for piece in pieces:
            rows += piece.height
            yield piece

    def write(temporary: Path) -> None:
        if path.suffix == ".csv":
            with temporary.open("wb") as file:
                for number, piece in enumerate(counted()):
                    piece.write_csv(file, include_header=number == 0)
        else:
            _write_parquet(counted(), temporary)

    write_atomically(path, write)
    return rows


def _write_parquet(pieces: Iterable[pl.DataFrame], path: Path) -> None:
    """One file from pieces, in their order."""
    rest = iter(pieces)
    first = next(rest)

    def source(*_: object) -> Iterator[pl.DataFrame]:
        yield from itertools.chain([first], rest)

    # A lazy frame that asks for the pieces, and a writer that takes one after the other.
    register_io_source(source, schema=first.schema).sink_parquet(path)
