"""Reading of Parquet files that are larger than memory.

Polars counts the rows of each user in a streaming pass. A second pass replaces ids by codes and distributes the rows
over files, one for each range of users. Every such file fits into memory, where its pairs are put in order.
"""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from icpe import columns as col
from icpe.data.ids import IdType
from icpe.data.interactions import Interactions, Reading
from icpe.data.item_info import align_item_info
from icpe.data.lookup import positions
from icpe.data.readers import Columns, TimeUnit, parse_times, parse_weights
from icpe.data.readers.parquet import scan_log
from icpe.data.readers.table import Piece, Table
from icpe.data.readers.timestamps import unit_of_numbers
from icpe.data.stored.log import StoredLog, write_piece
from icpe.errors import ConfigError, DataError
from icpe.types import IntArray

PIECE = 6_000_000  # rows of a piece, and of a batch while reading


def read_stored(
    source: Path | str,
    folder: Path,
    columns: Columns | None = None,
    *,
    min_weight: float | None = None,
    ids: IdType = "auto",
    time_unit: TimeUnit = "auto",
    item_info: Any = None,
    item_columns: Columns | None = None,
    piece: int = PIECE,
) -> StoredLog:
    """The log in a Parquet file or in a folder of Parquet files, with its pairs in files.

    The log equals that of :meth:`Interactions.read`, but needs memory for the ids and for one piece only.

    Args:
        source: a Parquet file or a folder of Parquet files.
        folder: new folder for the pieces, with space for about 20 bytes per row.
        columns: as in :meth:`Interactions.read`, like the following ones.
        min_weight: keep only rows with at least this weight.
        ids: ``"text"`` turns integer ids into text. Parquet files know the type of their ids.
        time_unit: unit of numeric timestamps.
        item_info: a frame or file with columns of items for display.
        item_columns: our name → the name in ``item_info``.
        piece: number of rows that are in memory at a time.

    Raises:
        DataError: the source cannot be read.
        ConfigError: an argument is wrong.
    """
    if ids == "int":
        raise ConfigError("a log that is read in pieces has the ids of its Parquet files; pass ids='text' or none")
    scan, ignored, name = scan_log(Path(source), columns)
    scan = _typed(scan, ids, name)
    rows = int(scan.select(pl.len()).collect().item())
    if rows == 0:
        raise DataError(f"{name} has no rows")
    _check_complete(scan, name)
    kept = _with_min_weight(scan, min_weight, name)
    counts = kept.group_by(col.USER).len().collect(engine="streaming").sort(col.USER)
    items = kept.select(pl.col(col.ITEM).unique()).collect(engine="streaming")[col.ITEM].sort()
    if counts.height == 0:
        raise DataError(f"no row of {name} has a weight of at least {min_weight}")
    if min(counts.height, len(items)) < 2:
        raise DataError(f"{name} has {counts.height} user(s) and {len(items)} item(s); at least 2 of each are needed")
    users, size = counts[col.USER], int(counts["len"].sum())
    piece_of_user = ((np.cumsum(counts["len"].to_numpy()) - 1) // piece).astype(np.int32)
    info = align_item_info(item_info, items, item_columns) if item_info is not None else None
    names = ("user", "item", *(one for one in (col.TIME, col.WEIGHT) if one in scan.collect_schema().names()))
    log = StoredLog(folder, users, items, names, (), info)
    folder.mkdir(parents=True)
    with tempfile.TemporaryDirectory(dir=folder) as place:
        unit = unit_of_numbers(kept, time_unit, name)
        _distribute(kept, log, piece_of_user, Path(place), piece, (name, unit))
        sizes = list(_order(log, piece_of_user, Path(place)))
    reading = Reading(name, rows, size - sum(sizes), rows - size, ignored)
    return StoredLog(folder, users, items, names, tuple(sizes), info, reading)


def _typed(scan: pl.LazyFrame, ids: IdType, name: str) -> pl.LazyFrame:
    """The rows with ids as integers or text."""
    casts = []
    for column in (col.USER, col.ITEM):
        kind = scan.collect_schema()[column]
        text = ids == "text" or kind in (pl.String, pl.Categorical, pl.Enum)
        if not (text or kind.is_integer()):
            raise DataError(f"{name}: {column!r} has the type {kind}; a log read in pieces needs integers or text")
        casts.append(pl.col(column).cast(pl.String if text else pl.Int64))
    return scan.with_columns(casts)


def _check_complete(scan: pl.LazyFrame, name: str) -> None:
    """Refuse missing and empty ids, as reading into memory does."""
    schema = scan.collect_schema()
    wrong = {
        column: pl.col(column).is_null()
        | ((pl.col(column).str.strip_chars() == "") if schema[column] == pl.String else False)
        for column in (col.USER, col.ITEM)
    }
    found = scan.select(one.sum().alias(column) for column, one in wrong.items()).collect(engine="streaming")
    for column, count in found.row(0, named=True).items():
        if count:
            raise DataError(f"{name}: {column!r} is missing or empty in {count:,} rows. Every row needs both ids")


def _with_min_weight(scan: pl.LazyFrame, min_weight: float | None, name: str) -> pl.LazyFrame:
    if min_weight is None:
        return scan
    if col.WEIGHT not in scan.collect_schema().names():
        raise ConfigError(
            f"min_weight={min_weight} needs weights, but {name} has no column 'weight'. "
            "Pass columns={'weight': NAME} (command line: --column weight=NAME)"
        )
    return scan.filter(pl.col(col.WEIGHT).cast(pl.Float64) >= min_weight)


def _distribute(
    kept: pl.LazyFrame, log: StoredLog, piece_of_user: IntArray, place: Path, piece: int, about: tuple[str, TimeUnit]
) -> None:
    """Write the rows with codes instead of ids, in one file for each batch and piece. Rows stay in their order."""
    name, unit = about
    start = 0
    for number, batch in enumerate(kept.collect_batches(chunk_size=piece, maintain_order=True, engine="streaming")):
        table = Table(batch, (Piece(name, batch.height, 1 + start),))
        start += batch.height
        user = positions(batch[col.USER], log.users)
        coded = Interactions(
            log.users,
            log.items,
            user,
            positions(batch[col.ITEM], log.items),
            parse_times(table, col.TIME, unit) if col.TIME in log.columns else None,
            parse_weights(table, col.WEIGHT) if col.WEIGHT in log.columns else None,
        )
        target = piece_of_user[user]
        for one in np.unique(target):
            write_piece(place / f"{one:05}-{number:05}.parquet", coded.keep(target == one))


def _order(log: StoredLog, piece_of_user: IntArray, place: Path) -> Iterator[int]:
    """Write the pieces with distinct pairs in order, and yield their sizes."""
    pieces = np.unique(piece_of_user)  # a user with more rows than a piece leaves gaps in the numbers
    for number, one in enumerate(pieces):
        files = sorted(place.glob(f"{one:05}-*.parquet"))
        found = pl.concat([pl.read_parquet(file, glob=False) for file in files])
        arrays = [found[name].to_numpy() if name in log.columns else None for name in ("user", "item")]
        times, weights = (found[name].to_numpy() if name in log.columns else None for name in (col.TIME, col.WEIGHT))
        assert arrays[0] is not None
        assert arrays[1] is not None
        ordered = Interactions.from_codes(log.users, log.items, arrays[0], arrays[1], times, weights)
        write_piece(log.path(number), ordered)
        for file in files:
            file.unlink()
        yield len(ordered)
