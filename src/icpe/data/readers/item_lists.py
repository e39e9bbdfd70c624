"""Reader of LightGCN's lists: one line per user, with the user and then the items, separated by blanks."""

from pathlib import Path

import numpy as np
import polars as pl

from icpe import columns as col
from icpe.data.readers.table import Piece, Table
from icpe.data.readers.text_lines import read_lines


def read_item_lists(path: Path) -> Table:
    """One row per user and item, from lines ``user item item …`` as published with NGCF and LightGCN.

    A line with a user and no items adds nothing.
    """
    words = pl.Series(read_lines(path), dtype=pl.String).str.extract_all(r"\S+")
    frame = pl.DataFrame({"words": words}).with_row_index("row", offset=1).filter(pl.col("words").list.len() > 1)
    frame = frame.select(
        "row", pl.col("words").list.first().alias(col.USER), pl.col("words").list.slice(1).alias(col.ITEM)
    ).explode(col.ITEM)
    rows = frame["row"].to_numpy().astype(np.int64)
    return Table(frame.drop("row"), (Piece(str(path), frame.height, rows=rows),), untyped=True)
