"""Delimited text (CSV, TSV, RecBole ``.inter``, HetRec ``.dat``) and LightGCN's lists, plain or compressed.

Fields are read as text and turned into numbers later, so that a wrong value can be shown with its row; only times
that are whole numbers, the usual case, are parsed at once.
"""

import csv
import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from icpe import columns as col
from icpe.data.coding import HASHES, Coder, GrowingArray
from icpe.data.readers.table import INTERACTION, Columns, Piece, Table, Wanted, pick_columns
from icpe.errors import ConfigError, DataError

COMPRESSED = (".gz", ".zst", ".zstd")

_LARGE = 64 << 20  # bytes; below, reading at once is as fast and needs no compiled kernel
_BATCH = 250_000
_ALONE = "\x1f"  # a character no log contains, to read whole lines as one column
_HETREC_ITEMS = ("artistID", "movieID", "bookmarkID", "itemID")


def read_text(
    path: Path,
    columns: Columns | None,
    format: str,
    header: bool,
    separator: str | None,
    stream: bool,
    wanted: Wanted = INTERACTION,
) -> Table:
    """Read one text file; ``format`` is one of csv, tsv, inter, hetrec, lists.

    With ``stream`` the ids of a large file are coded while it is read.
    """
    head, before = _head(path)
    if format == "lists":
        return _read_lists(path)
    separator = _check_separator(separator, path) or ("\t" if format == "tsv" else _sniff(head, path))
    # Only CSV quotes; in the others a quotation mark is an ordinary character, as in artists' names.
    quote = '"' if format in ("csv", "tsv") else None
    fields = _fields(head, separator, quote)
    names = fields if header else [str(position) for position in range(len(fields))]
    if format == "inter":
        names = [name.split(":")[0] for name in names]
    if format == "hetrec":
        columns = {**_hetrec_columns(names), **(columns or {})}
    picked = pick_columns(names, columns, str(path), header, wanted)
    _refuse_doubles(names, picked, path)
    skipped = before + (1 if header else 0)
    places = {ours: names.index(theirs) for ours, theirs in picked.items()}
    ignored = tuple(name for name in names if name not in picked.values())
    if stream and path.stat().st_size >= _LARGE:
        table = _stream(path, separator, quote, skipped, len(names), places, ignored)
        if table is not None:
            return table
    frame = _parse(path, separator, quote, skipped, len(names), places)
    return _without_blank_lines(path, frame, ignored, skipped)


def first_line(path: Path) -> str:
    """The first line that is not blank.

    Raises:
        DataError: the file holds no text.
    """
    return _head(path)[0]


def _head(path: Path) -> tuple[str, int]:
    """The first line that is not blank, and how many blank ones stand before it."""
    try:
        lines = _lines(path, 50)
    except pl.exceptions.ComputeError:
        raise DataError(_explain(path, None, 0) or f"{path} is not a text file in UTF-8") from None
    except pl.exceptions.NoDataError:
        raise DataError(f"{path} has no content") from None
    except OSError as error:
        raise DataError(_broken_archive(path, error)) from error
    before, line = next(((at, line) for at, line in enumerate(lines) if line and line.strip()), (0, None))
    if line is None:
        raise DataError(f"{path} has no content in its first {len(lines)} lines")
    if "\0" in line:
        raise DataError(
            f"{path} looks like a binary file; expected text (CSV, TSV, .inter, .dat, lists) in UTF-8, or Parquet. "
            "If it is an archive, unpack it first; if it is UTF-16, save it as UTF-8"
        )
    if "\r" in line.rstrip("\r"):
        raise DataError(
            f"{path} ends its lines with carriage returns only. "
            f"Convert it: tr '\\r' '\\n' < {path.name} > unix-{path.name}"
        )
    return line, before


def _lines(path: Path, count: int | None = None) -> list[str | None]:
    frame = pl.read_csv(
        path, has_header=False, separator=_ALONE, quote_char=None, n_rows=count, infer_schema=False, glob=False
    )
    return frame.to_series().to_list() if frame.width else []


def _check_separator(separator: str | None, path: Path) -> str | None:
    if separator is not None and len(separator.encode()) != 1:
        raise ConfigError(f"separator is {separator!r} for {path}; expected one character such as ',' or '\\t'")
    return separator


def _sniff(head: str, path: Path) -> str:
    if "::" in head:
        raise DataError(
            f"{path} separates fields by '::', which no reader here understands. "
            "Replace it first, for example: sed 's/::/\\t/g' ratings.dat > ratings.tsv"
        )
    # The separator that occurs most often; a comma where none occurs, so that the message shows the whole line.
    return max(",\t;|", key=head.count)


def _fields(head: str, separator: str, quote: str | None) -> list[str]:
    head = head.rstrip("\r")
    return head.split(separator) if quote is None else next(csv.reader([head], delimiter=separator, quotechar=quote))


def _hetrec_columns(names: list[str]) -> dict[str, str | int]:
    if "userID" not in names:
        return {}
    item = next((name for name in names if name in _HETREC_ITEMS), None)
    weight = next((name for name in names if name in ("weight", "rating")), None)
    found: dict[str, str | None] = {col.USER: "userID", col.ITEM: item, col.WEIGHT: weight}
    return {ours: theirs for ours, theirs in found.items() if theirs is not None}


def _refuse_doubles(names: list[str], picked: dict[str, str], path: Path) -> None:
    for theirs in picked.values():
        if names.count(theirs) > 1:
            raise DataError(
                f"{path} has {names.count(theirs)} columns called {theirs!r}. "
                "Rename one, or name the column by its position, e.g. columns={'user_id': 0}"
            )


def _scan(
    path: Path, separator: str, quote: str | None, skipped: int, width: int, wanted: dict[str, int], whole_times: bool
) -> pl.LazyFrame:
    # Columns go by position: two may carry the same name.
    schema: dict[str, Any] = dict.fromkeys(map(str, range(width)), pl.String)
    if whole_times and col.TIME in wanted:
        schema[str(wanted[col.TIME])] = pl.Int64
    scan = pl.scan_csv(
        path, has_header=False, skip_lines=skipped, separator=separator, quote_char=quote, schema=schema, glob=False
    )
    return scan.select(pl.col(str(position)).alias(ours) for ours, position in wanted.items())


def _stream(
    path: Path,
    separator: str,
    quote: str | None,
    skipped: int,
    width: int,
    wanted: dict[str, int],
    ignored: tuple[str, ...],
) -> Table | None:
    """Read in batches and code ids on the way: their text is never in memory as a whole.

    Returns None where something is unusual; the plain way deals with that, or says what is wrong.
    """
    coders = {name: Coder() for name in col.REQUIRED}
    times, weights = GrowingArray(np.int64), []
    scan = _scan(path, separator, quote, skipped, width, wanted, whole_times=True)
    # Hashes are made by the threads that parse, while this one codes.
    hashes = {f"{name} {seed}": pl.col(name).hash(seed) for name in coders for seed in HASHES}
    try:
        for batch in scan.with_columns(**hashes).collect_batches(chunk_size=_BATCH, maintain_order=True):
            if any(batch[name].null_count() for name in batch.columns):
                return None
            for name, coder in coders.items():
                coder.add(batch[name], *(batch[f"{name} {seed}"] for seed in HASHES))
            if col.TIME in wanted:
                times.more(batch.height)[:] = batch[col.TIME].to_numpy()
            if col.WEIGHT in wanted:
                weights.append(batch[col.WEIGHT])
    except (pl.exceptions.PolarsError, OSError):
        return None
    if coders[col.USER].rows == 0:
        return None
    coded = {name: coder.finish() for name, coder in coders.items()}
    rest = {col.TIME: pl.Series(times.finish())} if col.TIME in wanted else {}
    rest |= {col.WEIGHT: pl.concat(weights)} if weights else {}
    piece = Piece(str(path), len(coded[col.USER].codes), skipped + 1)
    return Table(pl.DataFrame(rest), (piece,), ignored, untyped=True, coded=coded)


def _parse(
    path: Path, separator: str, quote: str | None, skipped: int, width: int, wanted: dict[str, int]
) -> pl.DataFrame:
    for whole_times in (True, False):
        try:
            return _scan(path, separator, quote, skipped, width, wanted, whole_times).collect()
        except (pl.exceptions.ComputeError, pl.exceptions.SchemaError) as error:
            if whole_times and col.TIME in wanted:
                continue  # times are not all whole numbers: once more, as text
            reason = _explain(path, (separator, quote), width) or f"{path}: {str(error).splitlines()[0]}"
            raise DataError(reason) from error
        except pl.exceptions.NoDataError:
            break
        except OSError as error:
            raise DataError(_broken_archive(path, error)) from error
    return pl.DataFrame(schema=dict.fromkeys(wanted, pl.String))


def _without_blank_lines(path: Path, frame: pl.DataFrame, ignored: tuple[str, ...], skipped: int) -> Table:
    first_row = skipped + 1
    # Only rows without both ids can be blank lines; one look at a single column settles the usual case.
    if frame[col.USER].null_count() == 0:
        return Table(frame, (Piece(str(path), frame.height, first_row),), ignored, untyped=True)
    empty = frame.select(pl.all_horizontal(pl.all().is_null())).to_series()
    blank = sum(not (line or "").strip() for line in _lines(path)[skipped:])
    if blank != empty.sum():  # a row of separators only is not a blank line but lacks its ids
        return Table(frame, (Piece(str(path), frame.height, first_row),), ignored, untyped=True)
    rows = np.flatnonzero(~empty.to_numpy()) + first_row
    return Table(frame.filter(~empty), (Piece(str(path), len(rows), rows=rows),), ignored, untyped=True)


def _read_lists(path: Path) -> Table:
    """``user item item …`` a line, as published with NGCF and LightGCN; a user alone on a line adds nothing."""
    words = pl.Series(_lines(path), dtype=pl.String).str.extract_all(r"\S+")
    frame = pl.DataFrame({"words": words}).with_row_index("row", offset=1).filter(pl.col("words").list.len() > 1)
    frame = frame.select(
        "row", pl.col("words").list.first().alias(col.USER), pl.col("words").list.slice(1).alias(col.ITEM)
    ).explode(col.ITEM)
    rows = frame["row"].to_numpy().astype(np.int64)
    return Table(frame.drop("row"), (Piece(str(path), frame.height, rows=rows),), untyped=True)


def _explain(path: Path, dialect: tuple[str, str | None] | None, width: int) -> str | None:
    """Why a text file could not be parsed, with the row; None where this cannot be told."""
    try:
        if dialect is None:
            for _ in _decoded(path):
                pass
            return None
        separator, quote = dialect
        lines = _decoded(path)
        if quote is None:
            reader = csv.reader(lines, delimiter=separator, quoting=csv.QUOTE_NONE)
        else:
            reader = csv.reader(lines, delimiter=separator, quotechar=quote)
        start = 1
        for number, fields in enumerate(reader, 1):
            if len(fields) > width:
                return (
                    f"{path}, row {number} has {len(fields)} fields where the first row has {width}. "
                    f"Quote fields that contain {separator!r}, or name another separator"
                )
            if reader.line_num - start > 1000:
                return f'{path}, row {number} opens a quotation mark (") that is not closed: double or remove it'
            start = reader.line_num + 1
    except DataError as error:
        return str(error)
    except (OSError, EOFError, zlib.error) as error:
        return _broken_archive(path, error)
    except csv.Error:
        pass
    return None


def _decoded(path: Path) -> Iterator[str]:
    with path.open("rb") as file:
        magic = file.read(4)
    if magic == b"\x28\xb5\x2f\xfd":  # zstd: only polars can unpack it, so no row can be told
        raise DataError(f"{path} is not text in UTF-8 once unpacked")
    with gzip.open(path, "rb") if magic[:2] == b"\x1f\x8b" else path.open("rb") as stream:
        for number, line in enumerate(stream, 1):
            try:
                yield line.decode("utf-8")
            except UnicodeDecodeError as error:
                raise DataError(
                    f"{path}, row {number} is not UTF-8 (byte 0x{line[error.start]:02x}). Convert it if it is Latin-1: "
                    f"iconv -f latin1 -t utf-8 {path.name} > utf8-{path.name}; if it is binary, it cannot be read"
                ) from None


def _broken_archive(path: Path, error: Exception) -> str:
    return f"{path} cannot be unpacked ({error}). It may be cut off or damaged: make or download it again"
