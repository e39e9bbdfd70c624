"""What is known about items besides their ids: names, genres, whatever a file has."""

from pathlib import Path
from typing import Any

import polars as pl

from icpe import columns as col
from icpe.errors import DataError


def align_item_info(info: Any, items: pl.Series) -> pl.DataFrame:
    """A row per item in the order of ``items``; items without information get nulls.

    Args:
        info: a frame, or a CSV or Parquet file, with ``item_id`` and further columns.
        items: the ids of the log.
    """
    frame = _as_frame(info)
    if col.ITEM not in frame.columns:
        raise DataError(f"item information needs a column 'item_id'; it has {', '.join(map(repr, frame.columns))}")
    if frame.width < 2:
        raise DataError("item information has only the column 'item_id'; add 'name' or others")
    try:
        frame = frame.with_columns(pl.col(col.ITEM).cast(items.dtype)).unique(col.ITEM, keep="first")
    except pl.exceptions.PolarsError as error:
        raise DataError(
            f"item information has ids of type {frame[col.ITEM].dtype}, the log has {items.dtype}; they must agree"
        ) from error
    ordered = [col.ITEM, *(name for name in frame.columns if name != col.ITEM)]
    return items.to_frame(col.ITEM).join(frame, on=col.ITEM, how="left", maintain_order="left").select(ordered)


def _as_frame(info: Any) -> pl.DataFrame:
    if isinstance(info, pl.DataFrame):
        return info
    if not isinstance(info, str | Path):
        try:
            return pl.DataFrame(info)
        except (TypeError, ValueError) as error:
            raise DataError(f"item information cannot be read from {type(info).__name__!r}") from error
    path = Path(info)
    try:
        if path.suffix == ".parquet":
            return pl.read_parquet(path, glob=False)
        return pl.read_csv(path, separator="\t" if path.suffix == ".tsv" else ",", infer_schema=False, glob=False)
    except (OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise DataError(f"item information {path} cannot be read: {str(error).splitlines()[0]}") from error
