"""Reader of Parquet files and of folders of Parquet files."""

from collections.abc import Sequence
from pathlib import Path

import polars as pl

from icpe.data.readers.column_mapping import INTERACTION, Columns, ExpectedColumns, pick_columns
from icpe.data.readers.table import Piece, Table
from icpe.data.readers.unpacked import largest_size, too_large
from icpe.errors import DataError

_BYTES = 8  # a value in memory


def read_parquet_folder(folder: Path, columns: Columns | None, expected: ExpectedColumns = INTERACTION) -> Table:
    """All Parquet files below a folder as one table. Folders named ``key=value`` add a column (Hive partitions)."""
    return read_parquet(_files_below(folder), str(folder), columns, expected)


def scan_log(path: Path, columns: Columns | None) -> tuple[pl.LazyFrame, tuple[str, ...], str]:
    """The rows of a Parquet file or a folder of them, under our names; the other columns; and the name of the source.

    Raises:
        DataError: the path does not exist or is no Parquet file, or a column is missing.
    """
    if not path.exists():
        raise DataError(f"{path} does not exist. Check the path; relative paths start at {Path.cwd()}")
    if path.is_file() and path.suffix not in (".parquet", ".pq"):
        raise DataError(f"{path} is not a Parquet file, and only these can be read in pieces; convert it first")
    files = _files_below(path) if path.is_dir() else [path]
    try:
        scan = _scan(files)
        names = scan.collect_schema().names()
        picked = pick_columns(names, columns, str(path))
    except (OSError, pl.exceptions.PolarsError) as error:
        raise DataError(f"{path} cannot be read: {str(error).splitlines()[0]}") from error
    rows = scan.select(pl.col(theirs).alias(ours) for ours, theirs in picked.items())
    return rows, tuple(name for name in names if name not in picked.values()), str(path)


def _files_below(folder: Path) -> list[Path]:
    files = sorted(
        path
        for path in folder.rglob("*")
        if path.suffix in (".parquet", ".pq") and not path.name.startswith(("_", ".")) and path.is_file()
    )
    if not files:
        others = sorted(path.name for path in folder.iterdir())
        found = f"it has {', '.join(others[:5])}" + (" …" if len(others) > 5 else "") if others else "it is empty"
        raise DataError(f"{folder} has no Parquet files ({found}). Name a file, or a folder with .parquet files")
    return files


def _scan(files: Sequence[Path]) -> pl.LazyFrame:
    partitioned = len(files) > 1 and any("=" in part for part in files[0].parts)
    return pl.scan_parquet(list(files), glob=False, hive_partitioning=partitioned)


def read_parquet(
    files: Sequence[Path], source: str, columns: Columns | None, expected: ExpectedColumns = INTERACTION
) -> Table:
    """The expected columns of one or several Parquet files."""
    scan = _scan(files)
    try:
        names = scan.collect_schema().names()
        picked = pick_columns(names, columns, source, expected=expected)
        _refuse_too_many_rows(scan, len(picked), files, source)
        frame = scan.select(pl.col(theirs).alias(ours) for ours, theirs in picked.items()).collect()
    except pl.exceptions.SchemaError as error:
        raise DataError(
            f"the Parquet files in {source} do not have the same columns and types: {str(error).splitlines()[0]}"
        ) from error
    except pl.exceptions.ComputeError as error:
        raise DataError(
            f"{source} is not a complete Parquet file ({str(error).splitlines()[0]}). "
            "It may be cut off or damaged: create or copy it again"
        ) from error
    return Table(frame, (Piece(source, frame.height),), tuple(name for name in names if name not in picked.values()))


def _refuse_too_many_rows(scan: pl.LazyFrame, width: int, files: Sequence[Path], source: str) -> None:
    """Refuse a file that claims many more rows than a log of its size has, such as a single value repeated."""
    packed = sum(path.stat().st_size for path in files)
    unpacked = scan.select(pl.len()).collect().item() * width * _BYTES
    if unpacked > largest_size(packed):
        raise too_large(source, packed, largest_size(packed), "write it as CSV and read that")
