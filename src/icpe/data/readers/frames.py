"""Reader of polars, pandas and Arrow frames and of dictionaries of columns."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl

from icpe.data.readers.column_mapping import INTERACTION, Columns, ExpectedColumns, pick_columns
from icpe.data.readers.table import Piece, Table
from icpe.errors import DataError


def from_frame(frame: Any, columns: Columns | None = None, expected: ExpectedColumns = INTERACTION) -> Table:
    """The expected columns of a polars, pandas or Arrow frame, or of a dictionary of columns.

    pandas columns are converted one by one. This needs neither pandas nor pyarrow here, and it detects an object
    column with ids of mixed types.
    """
    if isinstance(frame, pl.LazyFrame):
        frame = frame.collect()
    elif isinstance(frame, Mapping):
        frame = _from_columns(frame)
    if isinstance(frame, pl.DataFrame):
        picked = pick_columns(frame.columns, columns, "the frame", expected=expected)
        chosen = frame.select(pl.col(theirs).alias(ours) for ours, theirs in picked.items())
        names = frame.columns
    elif _is_pandas(frame):
        names = [str(name) for name in frame.columns]
        picked = pick_columns(names, columns, "the frame", expected=expected)
        chosen = pl.DataFrame({ours: _from_pandas(frame, names.index(theirs)) for ours, theirs in picked.items()})
    elif hasattr(frame, "__arrow_c_stream__"):
        return from_frame(pl.DataFrame(frame), columns, expected)
    else:
        raise DataError(
            f"a log cannot be read from {type(frame).__name__!r}; expected a path, several paths, "
            "a frame of polars, pandas or Arrow, or a dictionary of columns"
        )
    ignored = tuple(name for name in names if name not in picked.values())
    return Table(chosen, (Piece("the frame", chosen.height),), ignored)


def _from_columns(columns: Mapping[Any, Any]) -> pl.DataFrame:
    try:
        return pl.DataFrame({str(name): _column(values) for name, values in columns.items()})
    except (pl.exceptions.PolarsError, ValueError) as error:
        raise DataError(f"the columns do not make a table: {str(error).splitlines()[0]}") from error


def _column(values: Any) -> pl.Series:
    if isinstance(values, pl.Series | np.ndarray):
        return pl.Series(values)
    try:
        return pl.Series(values, strict=True)
    except (TypeError, OverflowError, pl.exceptions.PolarsError):
        return pl.Series(values, dtype=pl.Object)


def _is_pandas(frame: Any) -> bool:
    return type(frame).__module__.split(".")[0] == "pandas" and hasattr(frame, "iloc") and hasattr(frame, "columns")


def _from_pandas(frame: Any, position: int) -> pl.Series:
    column = frame.iloc[:, position]
    missing = np.asarray(column.isna(), dtype=bool)
    if column.dtype.kind == "M":
        if column.dt.tz is not None:
            column = column.dt.tz_convert("UTC").dt.tz_localize(None)
        return pl.Series(column.to_numpy())
    if column.dtype.kind in "iufb" and isinstance(column.to_numpy(), np.ndarray) and column.to_numpy().dtype != object:
        return pl.Series(column.to_numpy())
    return _column([None if gone else _plain(value) for value, gone in zip(column.tolist(), missing, strict=True)])


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
