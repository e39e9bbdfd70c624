"""A log as read from a source: our column names, the source's values, nothing validated yet."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import polars as pl

from icpe.data.factorize import Factorized
from icpe.errors import DataError
from icpe.shown import shortened
from icpe.types import BoolArray, IntArray


@dataclass(frozen=True)
class Piece:
    """The rows that came from one file, and how messages number them.

    Attributes:
        source: the file, as messages call it.
        length: number of rows.
        first_row: number of the first row.
        rows: the number of each row, if they do not simply count up from ``first_row``.
    """

    source: str
    length: int
    first_row: int = 1
    rows: IntArray | None = None


@dataclass(frozen=True)
class Table:
    """The columns that were asked for, such as ``user_id, item_id[, timestamp][, weight]``, and the origin of each row.

    Attributes:
        frame: the columns, under our names.
        pieces: the origin of the rows, in order.
        ignored: names of the source's other columns.
        untyped: whether the source is a text file, in which ids that look like integers are integers.
        factorized: the id columns of a large text file, which ``frame`` then lacks.
    """

    frame: pl.DataFrame
    pieces: tuple[Piece, ...]
    ignored: tuple[str, ...] = ()
    untyped: bool = False
    factorized: Mapping[str, Factorized] = field(default_factory=dict)

    def __len__(self) -> int:
        return sum(piece.length for piece in self.pieces)

    @property
    def source(self) -> str:
        """The file or files, as messages call them."""
        return ", ".join(dict.fromkeys(piece.source for piece in self.pieces))

    def where(self, index: int) -> str:
        """The file and row number of the row with this index. Rows count as in a text editor: the header is row 1."""
        for piece in self.pieces:
            if index < piece.length:
                number = piece.first_row + index if piece.rows is None else int(piece.rows[index])
                return f"{piece.source}, row {number}"
            index -= piece.length
        raise IndexError(index)

    def wrong_value(self, column: str, wrong: pl.Series, what: str) -> DataError:
        """The error for a column with wrong values. It shows the first one with its place and counts the others."""
        rows = wrong.arg_true()
        index = int(rows[0])
        more = f" (and {len(rows) - 1:,} more rows)" if len(rows) > 1 else ""
        return DataError(f"{self.where(index)}: {column!r} is {_shown(self.frame[column], index)}, which {what}{more}")

    def keep(self, mask: BoolArray) -> "Table":
        """The rows where ``mask`` is true. They keep their row numbers."""
        pieces: list[Piece] = []
        start = 0
        for piece in self.pieces:
            inside = np.flatnonzero(mask[start : start + piece.length])
            numbers = piece.first_row + inside if piece.rows is None else piece.rows[inside]
            pieces.append(Piece(piece.source, len(inside), rows=numbers))
            start += piece.length
        factorized = {name: column.keep(mask) for name, column in self.factorized.items()}
        return replace(self, frame=self.frame.filter(pl.Series(mask)), pieces=tuple(pieces), factorized=factorized)


def _shown(values: pl.Series, index: int) -> str:
    """A value as messages show it, cut if it is long."""
    try:
        return shortened(repr(values[index]))
    except (ValueError, OverflowError, pl.exceptions.PanicException):  # a time beyond the range of Python's dates
        return str(values.to_physical()[index])


def join(tables: Sequence[Table]) -> Table:
    """All rows of several tables as one table.

    Raises:
        DataError: the tables differ in their columns or in the types of a column.
    """
    if len(tables) == 1:
        return tables[0]
    first = tables[0]
    for other in tables[1:]:
        for name in {*first.frame.columns, *other.frame.columns}:
            kinds = [_kind(table.frame.schema.get(name)) for table in (first, other)]
            if kinds[0] != kinds[1]:
                raise DataError(
                    f"column {name!r} has {kinds[0]} in {first.source} and {kinds[1]} in {other.source}; "
                    "files of one log need the same columns and id types"
                )
    frame = pl.concat([table.frame.select(first.frame.columns) for table in tables], how="vertical_relaxed")
    ignored = tuple(dict.fromkeys(name for table in tables for name in table.ignored))
    pieces = tuple(piece for table in tables for piece in table.pieces)
    return Table(frame, pieces, ignored, untyped=any(table.untyped for table in tables))


def _kind(dtype: pl.DataType | None) -> str:
    if dtype is None:
        return "nothing"
    if dtype.is_integer():
        return "integers"
    return "text" if dtype in (pl.String, pl.Categorical, pl.Enum) else str(dtype)
