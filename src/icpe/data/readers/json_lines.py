"""Reader of JSON lines: one object per line, with the same keys in each."""

from pathlib import Path

import numpy as np
import polars as pl

from icpe.data.readers.column_mapping import Columns, ExpectedColumns, pick_columns
from icpe.data.readers.table import Piece, Table
from icpe.data.readers.text_lines import blank_lines
from icpe.errors import DataError


def read_json_lines(path: Path, columns: Columns | None, expected: ExpectedColumns) -> Table:
    """The expected columns of a file with one JSON object per line. Numbers stay numbers and text stays text.

    Raises:
        DataError: the file is not JSON lines, or a column holds lists or objects.
    """
    try:
        # All rows decide the types, so that a key that first occurs late in the file is not lost.
        frame = pl.read_ndjson(path, infer_schema_length=None)
    except pl.exceptions.ComputeError as error:
        raise DataError(
            f"{path} is not a file of JSON lines ({str(error).splitlines()[0]}); expected one object per line, such as "
            '{"user_id": "u1", "item_id": "i7", "rank": 1}'
        ) from error
    picked = pick_columns(frame.columns, columns, str(path), expected=expected)
    for ours, theirs in picked.items():
        if frame[theirs].dtype.is_nested():
            raise DataError(
                f"{path}: {theirs!r} holds {frame[theirs].dtype.base_type().__name__.lower()}s; expected one value in "
                f"each line for {ours!r}. Write one line per user and item"
            )
    chosen = frame.select(pl.col(theirs).alias(ours) for ours, theirs in picked.items())
    ignored = tuple(name for name in frame.columns if name not in picked.values())
    blank = blank_lines(path)  # they are skipped, but messages count them
    rows = np.setdiff1d(np.arange(1, frame.height + len(blank) + 1), blank) if len(blank) else None
    return Table(chosen, (Piece(str(path), frame.height, rows=rows),), ignored)
