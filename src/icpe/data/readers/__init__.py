"""Readers of log files and frames.

:func:`read_table` chooses the reader for a source and returns a :class:`Table` with raw columns under our names. To
support another format, add a module with its reader and a line to ``dispatch.py``.
"""

from icpe.data.readers.column_mapping import (
    INTERACTION,
    ITEM_INFO,
    RECOMMENDATION,
    Columns,
    ExpectedColumns,
    pick_columns,
)
from icpe.data.readers.dispatch import Format, read_table
from icpe.data.readers.table import Piece, Table
from icpe.data.readers.timestamps import TimeUnit, parse_times
from icpe.data.readers.weights import parse_weights

__all__ = [
    "INTERACTION",
    "ITEM_INFO",
    "RECOMMENDATION",
    "Columns",
    "ExpectedColumns",
    "Format",
    "Piece",
    "Table",
    "TimeUnit",
    "parse_times",
    "parse_weights",
    "pick_columns",
    "read_table",
]
