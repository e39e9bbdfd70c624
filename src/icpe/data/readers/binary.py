"""Parquet files, folders of them, and plain NumPy arrays."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl

from icpe.data.readers.table import INTERACTION, Columns, Piece, Table, Wanted, pick_columns
from icpe.errors import DataError


def read_parquet_folder(folder: Path, columns: Columns | None, wanted: Wanted = INTERACTION) -> Table:
    """All Parquet files below a folder as one log; ``key=value`` folders add a column (Hive partitions)."""
    files = sorted(
        path
        for path in folder.rglob("*")
        if path.suffix in (".parquet", ".pq") and not path.name.startswith(("_", ".")) and path.is_file()
    )
    if not files:
        others = sorted(path.name for path in folder.iterdir())
        found = f"it has {', '.join(others[:5])}" + (" …" if len(others) > 5 else "") if others else "it is empty"
        raise DataError(f"{folder} has no Parquet files ({found}). Name a file, or a folder with .parquet files")
    return read_parquet(files, str(folder), columns, wanted)


def read_parquet(files: Sequence[Path], source: str, columns: Columns | None, wanted: Wanted = INTERACTION) -> Table:
    """The wanted columns of one or several Parquet files."""
    partitioned = len(files) > 1 and any("=" in part for part in files[0].parts)
    scan = pl.scan_parquet(list(files), glob=False, hive_partitioning=partitioned)
    try:
        names = scan.collect_schema().names()
        picked = pick_columns(names, columns, source, wanted=wanted)
        frame = scan.select(pl.col(theirs).alias(ours) for ours, theirs in picked.items()).collect()
    except pl.exceptions.SchemaError as error:
        raise DataError(
            f"the Parquet files in {source} do not have the same columns and types: {str(error).splitlines()[0]}"
        ) from error
    except pl.exceptions.ComputeError as error:
        raise DataError(
            f"{source} is not a whole Parquet file ({str(error).splitlines()[0]}). "
            "It may be cut off or damaged: make or copy it again"
        ) from error
    return Table(frame, (Piece(source, frame.height),), tuple(name for name in names if name not in picked.values()))


def read_npy(path: Path, columns: Columns | None, wanted: Wanted = INTERACTION) -> Table:
    """A plain two-dimensional array, its columns named by position. Pickled objects are refused."""
    try:
        array = np.load(path, allow_pickle=False)
    except Exception as error:  # the header of a damaged file fails in as many ways as Python has syntax errors
        raise DataError(f"{path} is not a plain NumPy array ({type(error).__name__}); pickles are refused") from error
    if not isinstance(array, np.ndarray) or array.ndim != 2 or array.dtype.kind not in "iuf":
        raise DataError(f"{path} should hold a two-dimensional array of numbers, one row per interaction")
    names = [str(position) for position in range(array.shape[1])]
    picked = pick_columns(names, columns, str(path), header=False, wanted=wanted)
    frame = pl.DataFrame({ours: np.ascontiguousarray(array[:, int(theirs)]) for ours, theirs in picked.items()})
    return Table(frame, (Piece(str(path), frame.height),), tuple(name for name in names if name not in picked.values()))
