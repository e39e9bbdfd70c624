"""Reader of delimited text: CSV, TSV, RecBole ``.inter`` and HetRec ``.dat``, plain or compressed.

Fields are read as text and converted to numbers later, so that an error can show a wrong value with its row. Only
times that are whole numbers, the usual case, are converted while parsing.
"""

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from icpe import columns as col
from icpe.data.factorize import HASH_SEEDS, ColumnFactorizer, GrowingArray
from icpe.data.readers.column_mapping import INTERACTION, Columns, ExpectedColumns, pick_columns
from icpe.data.readers.table import Piece, Table
from icpe.data.readers.text_lines import broken_archive, explain_fields, first_line, read_lines
from icpe.errors import ConfigError, DataError
from icpe.shown import shortened
from icpe.types import BoolArray

STREAM_FROM_BYTES = 64 << 20
"""Size from which files are read in batches. Smaller files are read just as fast at once, without compiled kernels."""

STREAM_BATCH_ROWS = 250_000
"""Number of rows in a batch."""

_SEPARATORS = ",\t;|"
_HETREC_ITEMS = ("artistID", "movieID", "bookmarkID", "itemID")


@dataclass(frozen=True)
class _Layout:
    """How to parse one text file.

    Attributes:
        path: the file.
        separator: between fields.
        quote: the quotation character, or None if fields are never quoted.
        skipped: number of lines before the first row of data.
        width: number of fields in a row.
        positions: our column name → position of the field.
        ignored: names of the columns that are not used.
    """

    path: Path
    separator: str
    quote: str | None
    skipped: int
    width: int
    positions: dict[str, int]
    ignored: tuple[str, ...]

    def scan(self, whole_times: bool) -> pl.LazyFrame:
        """The used columns as text; times as integers if ``whole_times``."""
        # Columns are selected by position because two of them may have the same name.
        schema: dict[str, Any] = dict.fromkeys(map(str, range(self.width)), pl.String)
        if whole_times and col.TIME in self.positions:
            schema[str(self.positions[col.TIME])] = pl.Int64
        scan = pl.scan_csv(
            self.path,
            has_header=False,
            skip_lines=self.skipped,
            separator=self.separator,
            quote_char=self.quote,
            schema=schema,
            glob=False,
        )
        return scan.select(pl.col(str(position)).alias(ours) for ours, position in self.positions.items())


def read_delimited(
    path: Path,
    columns: Columns | None,
    format: str,
    header: bool,
    separator: str | None,
    expected: ExpectedColumns = INTERACTION,
    stream: bool = False,
) -> Table:
    """The expected columns of one text file.

    Args:
        path: the file.
        columns: mapping of column names.
        format: csv, tsv, inter or hetrec.
        header: whether the first row names the columns.
        separator: between fields; None to detect it.
        expected: columns to look for.
        stream: whether a large file may be read in batches that factorize its ids on the way.
    """
    layout = _find_layout(path, columns, format, header, separator, expected)
    if stream and path.stat().st_size >= STREAM_FROM_BYTES:
        table = _read_in_batches(layout)
        if table is not None:
            return table
    return _without_blank_lines(layout, _read_at_once(layout))


def _find_layout(
    path: Path,
    columns: Columns | None,
    format: str,
    header: bool,
    separator: str | None,
    expected: ExpectedColumns,
) -> _Layout:
    head, blank = first_line(path)
    separator = _check_separator(separator, path) or ("\t" if format == "tsv" else _detect_separator(head, path))
    # Only CSV and TSV quote fields; in the other formats a quotation mark is an ordinary character, as in names.
    quote = '"' if format in ("csv", "tsv") else None
    fields = _fields(head, separator, quote, path)
    names = fields if header else [str(position) for position in range(len(fields))]
    if format == "inter":
        names = [name.split(":")[0] for name in names]
    if format == "hetrec":
        columns = {**_hetrec_columns(names), **(columns or {})}
    try:
        picked = pick_columns(names, columns, str(path), header, expected)
    except (ConfigError, DataError) as error:
        # Only logs have an option for the separator.
        hint = _wrong_separator(head, fields, separator, path) if expected is INTERACTION else None
        raise hint or error from None
    _check_unique(names, picked, path, expected)
    return _Layout(
        path=path,
        separator=separator,
        quote=quote,
        skipped=blank + (1 if header else 0),
        width=len(names),
        positions={ours: names.index(theirs) for ours, theirs in picked.items()},
        ignored=tuple(name for name in names if name not in picked.values()),
    )


def _check_separator(separator: str | None, path: Path) -> str | None:
    if separator == "\\t":  # as it arrives from a shell, which does not know this way to write a tab
        return "\t"
    if separator is not None and len(separator.encode()) != 1:
        raise ConfigError(f"separator is {separator!r} for {path}; expected one character such as ',' or '\\t'")
    return separator


def _wrong_separator(head: str, fields: list[str], separator: str, path: Path) -> DataError | None:
    """The error for a first row that this separator leaves whole and another one splits; None for other rows."""
    better = max(_SEPARATORS, key=head.count)
    if len(fields) > 1 or better not in head:
        return None
    shown = r"\t" if better == "\t" else better
    return DataError(
        f"the first row of {path} is {shortened(repr(head.strip()))}, which {separator!r} does not split into columns. "
        f"Pass separator='{shown}' (command line: --separator '{shown}')"
    )


def _detect_separator(head: str, path: Path) -> str:
    if "::" in head:
        raise DataError(
            f"{path} separates fields by '::', which is not supported. "
            "Replace it first, for example: sed 's/::/\\t/g' ratings.dat > ratings.tsv"
        )
    # The most frequent separator. If none occurs it is a comma, so that an error shows the whole line as one name.
    return max(_SEPARATORS, key=head.count)


def _fields(head: str, separator: str, quote: str | None, path: Path) -> list[str]:
    head = head.rstrip("\r")
    if quote is None:
        return head.split(separator)
    try:
        return next(csv.reader([head], delimiter=separator, quotechar=quote))
    except csv.Error as error:  # a field of more than 131,072 characters
        raise DataError(
            f"the first row of {path} cannot be split at {separator!r} into column names ({error}). Check that it is a "
            "header, or pass another separator (command line: --separator)"
        ) from error


def _hetrec_columns(names: list[str]) -> dict[str, str | int]:
    if "userID" not in names:
        return {}
    item = next((name for name in names if name in _HETREC_ITEMS), None)
    weight = next((name for name in names if name in ("weight", "rating")), None)
    found: dict[str, str | None] = {col.USER: "userID", col.ITEM: item, col.WEIGHT: weight}
    return {ours: theirs for ours, theirs in found.items() if theirs is not None}


def _check_unique(names: list[str], picked: dict[str, str], path: Path, expected: ExpectedColumns) -> None:
    for ours, theirs in picked.items():
        if names.count(theirs) > 1:
            raise DataError(
                f"{path} has {names.count(theirs)} columns called {theirs!r}. Rename one, or name the column by its "
                f"position: {expected.remedy({ours: names.index(theirs)})}"
            )


def _read_in_batches(layout: _Layout) -> Table | None:
    """The table, read in batches that factorize ids, so that the text of all ids is never in memory at once.

    Returns None if the file is unusual in any way. Reading it at once then succeeds or explains what is wrong.
    """
    factorizers = {name: ColumnFactorizer() for name in col.REQUIRED}
    times, weights = GrowingArray(np.int64), []
    # The parsing threads compute the hashes while this thread factorizes.
    hashes = {f"{name} {seed}": pl.col(name).hash(seed) for name in factorizers for seed in HASH_SEEDS}
    scan = layout.scan(whole_times=True).with_columns(**hashes)
    try:
        for batch in scan.collect_batches(chunk_size=STREAM_BATCH_ROWS, maintain_order=True):
            if any(batch[name].null_count() for name in batch.columns):
                return None
            for name, factorizer in factorizers.items():
                factorizer.add(batch[name], *(batch[f"{name} {seed}"] for seed in HASH_SEEDS))
            if col.TIME in layout.positions:
                times.extend(batch.height)[:] = batch[col.TIME].to_numpy()
            if col.WEIGHT in layout.positions:
                weights.append(batch[col.WEIGHT])
    except (pl.exceptions.PolarsError, OSError):
        return None
    if factorizers[col.USER].rows == 0:
        return None
    factorized = {name: factorizer.finish() for name, factorizer in factorizers.items()}
    rest = {col.TIME: pl.Series(times.finish())} if col.TIME in layout.positions else {}
    rest |= {col.WEIGHT: pl.concat(weights)} if weights else {}
    piece = Piece(str(layout.path), len(factorized[col.USER].codes), layout.skipped + 1)
    return Table(pl.DataFrame(rest), (piece,), layout.ignored, untyped=True, factorized=factorized)


def _read_at_once(layout: _Layout) -> pl.DataFrame:
    for whole_times in (True, False):
        try:
            return layout.scan(whole_times).collect()
        except (pl.exceptions.ComputeError, pl.exceptions.SchemaError) as error:
            if whole_times and col.TIME in layout.positions:
                continue  # not all times are whole numbers: read them as text
            reason = explain_fields(layout.path, layout.separator, layout.quote, layout.width)
            raise DataError(reason or f"{layout.path}: {str(error).splitlines()[0]}") from error
        except pl.exceptions.NoDataError:
            break
        except OSError as error:
            raise DataError(broken_archive(layout.path, error)) from error
    return pl.DataFrame(schema=dict.fromkeys(layout.positions, pl.String))


def _without_blank_lines(layout: _Layout, frame: pl.DataFrame) -> Table:
    source, first_row = str(layout.path), layout.skipped + 1
    every_row = Table(frame, (Piece(source, frame.height, first_row),), layout.ignored, untyped=True)
    # All columns of a blank line are empty, so checking the first one, mostly the user, settles the usual case.
    if frame.to_series(0).null_count() == 0:
        return every_row
    empty = frame.select(pl.all_horizontal(pl.all().is_null())).to_series().to_numpy()
    if not empty.any():
        return every_row
    # A row of separators only is empty but no blank line: it is a row without ids, which an error should name.
    kept = ~(empty & _blank_rows(layout, frame.height, empty))
    return every_row.keep(kept)


def _blank_rows(layout: _Layout, count: int, empty: BoolArray) -> BoolArray:
    """Which of the rows are blank lines; ``empty`` says which have no values."""
    lines = [line or "" for line in read_lines(layout.path)[layout.skipped :]]
    if len(lines) != count and layout.quote is not None:  # a quoted field goes on in the next line
        records = csv.reader((f"{line}\n" for line in lines), delimiter=layout.separator, quotechar=layout.quote)
        try:
            lines = [layout.separator.join(fields) for fields in records]
        except csv.Error:  # a field of more than 131,072 characters
            lines = []
    blank = np.array([not line.strip() for line in lines], dtype=bool)
    # Where rows cannot be matched with lines, either all empty rows are blank lines or none counts as one.
    return blank if len(blank) == count else np.full(count, blank.sum() == empty.sum())
