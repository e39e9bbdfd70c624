"""Reader of NumPy ``.npy`` files."""

from pathlib import Path

import numpy as np
import polars as pl

from icpe.data.readers.column_mapping import INTERACTION, Columns, ExpectedColumns, pick_columns
from icpe.data.readers.table import Piece, Table
from icpe.errors import DataError


def read_npy(path: Path, columns: Columns | None, expected: ExpectedColumns = INTERACTION) -> Table:
    """A two-dimensional array of numbers as a table. Its columns are named by position; pickled objects are refused."""
    try:
        # Mapping the file compares its size with the shape that its header claims before anything is allocated.
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except Exception as error:  # NumPy evaluates the header, so a damaged file can raise almost anything
        raise DataError(f"{path} is not a plain NumPy array ({type(error).__name__}); pickles are refused") from error
    if not isinstance(array, np.ndarray) or array.ndim != 2 or array.dtype.kind not in "iuf":
        raise DataError(f"{path} should hold a two-dimensional array of numbers, one row per interaction")
    names = [str(position) for position in range(array.shape[1])]
    picked = pick_columns(names, columns, str(path), header=False, expected=expected)
    frame = pl.DataFrame({ours: np.ascontiguousarray(array[:, int(theirs)]) for ours, theirs in picked.items()})
    return Table(frame, (Piece(str(path), frame.height),), tuple(name for name in names if name not in picked.values()))
