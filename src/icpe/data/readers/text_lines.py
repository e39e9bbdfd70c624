"""Lines of plain and compressed text files, and explanations of why a text file cannot be read."""

import csv
import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl

from icpe.errors import DataError
from icpe.types import IntArray

COMPRESSED = (".gz", ".zst", ".zstd")

_NO_SEPARATOR = "\x1f"  # a character that no log contains, so that each line is read as a single column
_LONGEST_QUOTE = 1000  # lines; a quoted field that is longer was probably never closed


def read_lines(path: Path, count: int | None = None) -> list[str | None]:
    """The first ``count`` lines of a text file, or all of them; an empty line may be None."""
    frame = pl.read_csv(
        path, has_header=False, separator=_NO_SEPARATOR, quote_char=None, n_rows=count, infer_schema=False, glob=False
    )
    return frame.to_series().to_list() if frame.width else []


def blank_lines(path: Path) -> IntArray:
    """The numbers of the blank lines of a text file, counted from 1."""
    lines = pl.scan_csv(
        path,
        has_header=False,
        separator=_NO_SEPARATOR,
        quote_char=None,
        infer_schema=False,
        new_columns=["line"],
        glob=False,
    )
    blank = pl.col("line").fill_null("").str.strip_chars() == ""
    return lines.with_row_index("number", 1).filter(blank).collect()["number"].to_numpy().astype(np.int64)


def first_line(path: Path) -> tuple[str, int]:
    """The first line that is not blank, and the number of blank lines before it.

    Raises:
        DataError: the file holds no text.
    """
    try:
        lines = read_lines(path, 50)
    except pl.exceptions.ComputeError:
        raise DataError(explain_encoding(path) or f"{path} is not a text file in UTF-8") from None
    except pl.exceptions.NoDataError:
        raise DataError(f"{path} has no content") from None
    except OSError as error:
        raise DataError(broken_archive(path, error)) from error
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


def explain_encoding(path: Path) -> str | None:
    """The first row that is not UTF-8, as an error message; None if all rows are."""
    try:
        for _ in _decoded_lines(path):
            pass
    except DataError as error:
        return str(error)
    except (OSError, EOFError, zlib.error) as error:
        return broken_archive(path, error)
    return None


def explain_fields(path: Path, separator: str, quote: str | None, width: int) -> str | None:
    """The first row that cannot be parsed into ``width`` fields, as an error message; None if none is found."""
    try:
        lines = _decoded_lines(path)
        if quote is None:
            reader = csv.reader(lines, delimiter=separator, quoting=csv.QUOTE_NONE)
        else:
            reader = csv.reader(lines, delimiter=separator, quotechar=quote)
        start = 1
        for number, fields in enumerate(reader, 1):
            if len(fields) > width:
                return (
                    f"{path}, row {number} has {len(fields)} fields where the first row has {width}. Quote fields that "
                    f"contain {separator!r}, or pass another separator (command line: --separator)"
                )
            if reader.line_num - start > _LONGEST_QUOTE:
                return f'{path}, row {number} opens a quotation mark (") that is not closed: double or remove it'
            start = reader.line_num + 1
    except DataError as error:
        return str(error)
    except (OSError, EOFError, zlib.error) as error:
        return broken_archive(path, error)
    except csv.Error:
        pass
    return None


def broken_archive(path: Path, error: Exception) -> str:
    """The error message for a compressed file that cannot be decompressed."""
    return f"{path} cannot be unpacked ({error}). It may be cut off or damaged: create or download it again"


def _decoded_lines(path: Path) -> Iterator[str]:
    """The lines as text; raises a DataError that names the first row that is not UTF-8."""
    with path.open("rb") as file:
        magic = file.read(4)
    if magic == b"\x28\xb5\x2f\xfd":  # zstd: only polars can unpack it, so the row cannot be named
        raise DataError(f"{path} is not text in UTF-8 after unpacking")
    with gzip.open(path, "rb") if magic[:2] == b"\x1f\x8b" else path.open("rb") as stream:
        for number, line in enumerate(stream, 1):
            try:
                yield line.decode("utf-8")
            except UnicodeDecodeError as error:
                raise DataError(
                    f"{path}, row {number} is not UTF-8 (byte 0x{line[error.start]:02x}). Convert it if it is Latin-1: "
                    f"iconv -f latin1 -t utf-8 {path.name} > utf8-{path.name}; if it is binary, it cannot be read"
                ) from None
