"""What is known about items besides their ids: names, genres and any other columns of a file."""

from pathlib import Path
from typing import Any

import polars as pl

from icpe import columns as col
from icpe.data.readers import ITEM_INFO, Columns, pick_columns
from icpe.data.readers.unpacked import refuse_bomb
from icpe.errors import ConfigError, DataError
from icpe.suggest import unknown_name


def align_item_info(info: Any, items: pl.Series, columns: Columns | None = None) -> pl.DataFrame:
    """One row per item, in the order of ``items``. Items without information get nulls.

    Args:
        info: a frame, or a CSV, TSV or Parquet file, with ``item_id`` and further columns.
        items: the item ids of the log.
        columns: our name → the name in ``info``, for ``item_id``, ``name``, ``genre`` and ``tags``. A column that
            already has one of these names and is replaced in this way is dropped.

    Raises:
        DataError: the information cannot be read, lacks a column, or has ids of another type than the log.
        ConfigError: the mapping has an unknown key.
    """
    source = f"item information {info}" if isinstance(info, str | Path) else "item information"
    frame = _rename(_as_frame(info), source, columns)
    if frame.width < 2:
        raise DataError(f"{source} has only the column 'item_id'; add 'name' or other columns")
    try:
        frame = frame.with_columns(pl.col(col.ITEM).cast(items.dtype)).unique(col.ITEM, keep="first")
    except pl.exceptions.PolarsError as error:
        raise DataError(
            f"{source} has ids of type {frame[col.ITEM].dtype}, but the log has ids of type {items.dtype}; "
            "they must have the same type"
        ) from error
    ordered = [col.ITEM, *(name for name in frame.columns if name != col.ITEM)]
    return items.to_frame(col.ITEM).join(frame, on=col.ITEM, how="left", maintain_order="left").select(ordered)


def item_column(info: pl.DataFrame | None, name: str) -> pl.Series:
    """The values of a column of item information, one for each item.

    Raises:
        ConfigError: there is no item information, it has no such column, or a value is a list.
    """
    if info is None:
        raise ConfigError(
            f"there is no column {name!r}, because nothing is known about the items; pass item_info=FILE when reading "
            "the log (command line: --items FILE)"
        )
    known = [one for one in info.columns if one != col.ITEM]
    if name not in known:
        raise unknown_name("column of the items", name, known)
    if info[name].dtype.is_nested():
        raise ConfigError(f"the column {name!r} of the items has several values for an item; expected one value each")
    return info[name]


def _rename(frame: pl.DataFrame, source: str, columns: Columns | None) -> pl.DataFrame:
    picked = pick_columns(frame.columns, columns, source, expected=ITEM_INFO)
    renamed = {theirs: ours for ours, theirs in picked.items()}
    kept = [name for name in frame.columns if name in renamed or name not in ITEM_INFO.names]
    return frame.select(pl.col(name).alias(renamed.get(name, name)) for name in kept)


def _as_frame(info: Any) -> pl.DataFrame:
    if isinstance(info, pl.DataFrame):
        return info
    if not isinstance(info, str | Path):
        try:
            return pl.DataFrame(info)
        except (TypeError, ValueError) as error:
            raise DataError(f"item information cannot be read from {type(info).__name__!r}") from error
    path = Path(info)
    if not path.exists():
        raise DataError(f"item information {path} does not exist. Check the path; relative paths start at {Path.cwd()}")
    try:
        if path.suffix == ".parquet":
            return pl.read_parquet(path, glob=False)
        refuse_bomb(path)
        return pl.read_csv(path, separator="\t" if path.suffix == ".tsv" else ",", infer_schema=False, glob=False)
    except (OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise DataError(f"item information {path} cannot be read: {str(error).splitlines()[0]}") from error
