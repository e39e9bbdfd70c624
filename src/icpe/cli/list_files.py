"""Recommendation lists with names, and in files."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import polars as pl

from icpe import columns as col
from icpe.data.interactions import Interactions
from icpe.data.piece_files import write_pieces
from icpe.errors import ConfigError
from icpe.files import write_atomically
from icpe.spreadsheet import safe_frame

_ROWS_TOGETHER = 100_000  # of a Parquet file


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
            write_pieces(_regrouped(counted()), temporary)
            return
        with temporary.open("wb") as file:
            for number, piece in enumerate(counted()):
                if path.suffix == ".csv":
                    (piece if raw else safe_frame(piece)).write_csv(file, include_header=number == 0)
                else:
                    piece.write_ndjson(file)

    write_atomically(path, write)
    return rows


def _regrouped(pieces: Iterable[pl.DataFrame]) -> Iterator[pl.DataFrame]:
    """Yield the same rows in pieces of equal size, so that the file does not depend on how the work was divided."""
    waiting: list[pl.DataFrame] = []
    rows = 0
    for piece in pieces:
        waiting.append(piece)
        rows += piece.height
        while rows >= _ROWS_TOGETHER:
            whole = pl.concat(waiting)
            yield whole[:_ROWS_TOGETHER].rechunk()
            waiting = [whole[_ROWS_TOGETHER:]]
            rows -= _ROWS_TOGETHER
    yield pl.concat(waiting).rechunk()
