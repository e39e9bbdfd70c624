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
    files = sorted(
        path
        for path in folder.rglob("*")
        if path.suffix in (".parquet", ".pq") and not path.name.startswith(("_", ".")) and path.is_file()
    )
    if not files:
        others = sorted(path.name for path in folder.iterdir())
        found = f"it has {', '.join(others[:5])}" + (" …" if len(others) > 5 else "") if others else "it is empty"
        raise DataError(f"{folder} has no Parquet files ({found}). Name a file, or a folder with .parquet files")
    return read_parquet(files, str(folder), columns, expected)


def read_parquet(
    files: Sequence[Path], source: str, columns: Columns | None, expected: ExpectedColumns = INTERACTION
) -> Table:
    """The expected columns of one or several Parquet files."""
    partitioned = len(files) > 1 and any("=" in part for part in files[0].parts)
    scan = pl.scan_parquet(list(files), glob=False, hive_partitioning=partitioned)
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
