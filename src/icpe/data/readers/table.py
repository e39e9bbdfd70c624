"""A log as read: our column names, the caller's values, nothing checked yet."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches

import numpy as np
import polars as pl

from icpe import columns as col
from icpe.data.coding import Coded
from icpe.errors import ConfigError, DataError
from icpe.types import BoolArray, IntArray

Columns = Mapping[str, str | int]


@dataclass(frozen=True)
class Wanted:
    """Columns a reader looks for.

    Attributes:
        names: our names; a user and an item there must be, the others may be.
        prefix: of the command line's options for such a file, as messages name them.
    """

    names: tuple[str, ...]
    prefix: str = ""

    def without_header(self, also: str = "") -> str:
        """What to pass where columns have no names; ``also`` are further options of the command line."""
        flag = f"--{self.prefix}column"
        flags = f"{also}{flag} user_id=0 {flag} item_id=1"
        return f"columns={{'user_id': 0, 'item_id': 1}} (command line: {flags})"


INTERACTION = Wanted(col.INTERACTION)
RECOMMENDATION = Wanted(col.RECOMMENDATION, "recs-")


@dataclass(frozen=True)
class Piece:
    """The rows that came from one file, and how to name them in a message."""

    source: str
    length: int
    first_row: int = 1
    rows: IntArray | None = None  # row numbers, where they do not simply count up from `first_row`


@dataclass(frozen=True)
class Table:
    """The wanted columns, such as ``user_id, item_id[, timestamp][, weight]``, and where their rows came from."""

    frame: pl.DataFrame
    pieces: tuple[Piece, ...]
    ignored: tuple[str, ...] = ()
    untyped: bool = False  # from a text file: ids that look like integers are integers
    coded: Mapping[str, Coded] = field(default_factory=dict)  # id columns of a large file, in place of those in `frame`

    def __len__(self) -> int:
        return sum(piece.length for piece in self.pieces)

    @property
    def source(self) -> str:
        """The file or files, as messages call them."""
        return ", ".join(dict.fromkeys(piece.source for piece in self.pieces))

    def where(self, index: int) -> str:
        """The place of the row with this index, counted as a text editor counts: the header is row 1."""
        for piece in self.pieces:
            if index < piece.length:
                number = piece.first_row + index if piece.rows is None else int(piece.rows[index])
                return f"{piece.source}, row {number}"
            index -= piece.length
        raise IndexError(index)

    def keep(self, mask: BoolArray) -> "Table":
        """The rows where ``mask`` is true; they keep their places."""
        rows: list[Piece] = []
        start = 0
        for piece in self.pieces:
            inside = np.flatnonzero(mask[start : start + piece.length])
            numbers = piece.first_row + inside if piece.rows is None else piece.rows[inside]
            rows.append(Piece(piece.source, len(inside), rows=numbers))
            start += piece.length
        coded = {name: column.keep(mask) for name, column in self.coded.items()}
        return replace(self, frame=self.frame.filter(pl.Series(mask)), pieces=tuple(rows), coded=coded)


def join(tables: Sequence[Table]) -> Table:
    """All rows of several tables as one log.

    Raises:
        DataError: a column is there in one table and missing in another, or has another type there.
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
                    "files that make one log need the same columns and id types"
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


def pick_columns(
    available: Sequence[str],
    columns: Columns | None,
    source: str,
    header: bool = True,
    wanted: Wanted = INTERACTION,
) -> dict[str, str]:
    """Our column name → the name in the source, for the columns that are wanted and there.

    A position (0, 1, …) may stand for a name. Columns that may be missing, such as ``timestamp``, are taken if they
    carry our name; any other name needs a mapping, because a guess that is wrong goes unnoticed.
    """
    mapping = dict(columns or {})
    _check_mapping(mapping, available, source, wanted.names)
    if not header and not mapping:
        raise ConfigError(
            f"{source} is read without a header, so its columns have no names. Pass {wanted.without_header()}"
        )
    picked: dict[str, str] = {}
    for ours in wanted.names:
        named = mapping.get(ours, ours)
        theirs = available[named] if isinstance(named, int) else named
        if theirs in available:
            picked[ours] = theirs
        elif ours in mapping or ours in col.REQUIRED:
            raise DataError(_missing(theirs, ours, available, source, wanted))
    doubled = [theirs for theirs in picked.values() if list(picked.values()).count(theirs) > 1]
    if doubled:
        raise ConfigError(f"column {doubled[0]!r} of {source} is asked for twice; each column can serve one purpose")
    return picked


def _check_mapping(mapping: Columns, available: Sequence[str], source: str, names: Sequence[str]) -> None:
    for ours, theirs in mapping.items():
        if ours not in names:
            turned = f". Did you mean columns={{{theirs!r}: {ours!r}}}?" if theirs in names else ""
            raise ConfigError(f"columns has the key {ours!r}; the keys are {_listed(names)}{turned}")
        if isinstance(theirs, int) and not 0 <= theirs < len(available):
            raise DataError(
                f"column {theirs} (for {ours!r}) does not exist: {source} has {len(available)} columns, "
                f"counted from 0 to {len(available) - 1}"
            )


def _missing(theirs: str, ours: str, available: Sequence[str], source: str, wanted: Wanted) -> str:
    near = get_close_matches(theirs.lower(), [name.lower() for name in available], n=1, cutoff=0.5)
    guess = next((name for name in available if near and name.lower() == near[0]), None) or "NAME"
    message = f"column {theirs!r} not found; {source} has {_listed(available)}. "
    if all(_is_number(name) for name in available):
        return message + (
            "That looks like data, not a header: pass header=False and "
            f"{wanted.without_header(f'--{wanted.prefix}no-header ')}"
        )
    return message + f"Pass columns={{{ours!r}: {guess!r}}} (command line: --{wanted.prefix}column {ours}={guess})"


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:12])
    return shown + (f" and {len(names) - 12} more" if len(names) > 12 else "")


def _is_number(name: str) -> bool:
    try:
        float(name)
    except ValueError:
        return False
    return True
