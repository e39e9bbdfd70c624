"""Recommendation lists with names, and in files."""

import itertools
from collections.abc import Iterable, Iterator
from pathlib import Path

import polars as pl
from polars.io.plugins import register_io_source

from icpe import columns as col
from icpe.data.interactions import Interactions
from icpe.errors import ConfigError
from icpe.files import write_atomically
from icpe.spreadsheet import safe_frame


def with_names(lists: pl.DataFrame, log: Interactions) -> pl.DataFrame:
    """Return the lists with a column ``name`` if the log has names of items."""
    if log.item_info is None or col.NAME not in log.item_info.columns:
        return lists
    return lists.with_columns(log.item_names(lists[col.ITEM]).alias(col.NAME))


def check_suffix(path: Path) -> None:
    """Raise an error if lists cannot be written to a file of this name.

    Raises:
        ConfigError: the suffix is unknown.
    """
    if path.suffix not in (".parquet", ".csv", ".jsonl"):
        raise ConfigError(f"-o is {path}; expected a file that ends in .parquet, .csv or .jsonl")


def write_lists(pieces: Iterable[pl.DataFrame], path: Path, raw: bool = False) -> int:
    """Write lists as Parquet, CSV or JSON lines, depending on the suffix, and return the number of rows.

    The function writes each piece as it arrives, so memory holds a few pieces and not all of them. In a CSV file, text
    that a spreadsheet would run as a formula is made safe unless ``raw`` is set.

    Raises:
        ConfigError: the file has another suffix.
    """
    check_suffix(path)
    rows = 0

    def counted() -> Iterable[pl.DataFrame]:
        nonlocal rows
        for piece in pieces:
            rows += piece.height
            yield piece

    def write(temporary: Path) -> None:
        if path.suffix == ".parquet":
            _write_parquet(counted(), temporary)
            return
        with temporary.open("wb") as file:
            for number, piece in enumerate(counted()):
                if path.suffix == ".csv":
                    (piece if raw else safe_frame(piece)).write_csv(file, include_header=number == 0)
                else:
                    piece.write_ndjson(file)

    write_atomically(path, write)
    return rows


def _write_parquet(pieces: Iterable[pl.DataFrame], path: Path) -> None:
    """Write one file from pieces, in their order."""
    rest = iter(pieces)
    first = next(rest)

    def source(*_: object) -> Iterator[pl.DataFrame]:
        yield from itertools.chain([first], rest)

    # The lazy frame requests one piece after the other, and the writer does not wait for the last one.
    register_io_source(source, schema=first.schema).sink_parquet(path)
