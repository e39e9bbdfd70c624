"""Choice of the reader for a source: a path, several paths, or a frame."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import polars as pl

from icpe.data.readers.arrays import read_npy
from icpe.data.readers.column_mapping import INTERACTION, Columns, ExpectedColumns
from icpe.data.readers.delimited import read_delimited
from icpe.data.readers.frames import from_frame
from icpe.data.readers.item_lists import read_item_lists
from icpe.data.readers.json_lines import read_json_lines
from icpe.data.readers.parquet import read_parquet, read_parquet_folder
from icpe.data.readers.table import Table, join
from icpe.data.readers.text_lines import COMPRESSED, first_line
from icpe.data.readers.unpacked import refuse_bomb
from icpe.errors import ConfigError, DataError

Format = Literal["auto", "parquet", "csv", "tsv", "inter", "lists", "hetrec", "npy", "jsonl"]

_BY_SUFFIX: dict[str, Format] = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".tsv": "tsv",
    ".inter": "inter",
    ".dat": "hetrec",
    ".npy": "npy",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
}


def read_table(
    source: Any,
    columns: Columns | None = None,
    format: Format = "auto",
    header: bool = True,
    separator: str | None = None,
    expected: ExpectedColumns = INTERACTION,
) -> Table:
    """The table of a path, of several paths that form one log, or of a frame.

    The arguments are those of ``Interactions.read``; ``expected`` are the columns to look for.
    """
    if format not in get_args(Format):
        raise ConfigError(f"format is {format!r}; expected one of {', '.join(get_args(Format))}")
    options = _Options(columns, format, header, separator, expected)
    if isinstance(source, Sequence) and not isinstance(source, str) and len(source) == 1:
        source = source[0]
    if isinstance(source, str | Path):
        # Batches know how to factorize the columns of a log only; several files are joined as text.
        return _read_path(Path(source), options, stream=expected is INTERACTION)
    if isinstance(source, Sequence) and source and all(isinstance(one, str | Path) for one in source):
        return join([_read_path(Path(one), options) for one in source])
    return from_frame(source, columns, expected)


@dataclass(frozen=True)
class _Options:
    columns: Columns | None
    format: Format
    header: bool
    separator: str | None
    expected: ExpectedColumns


def _read_path(path: Path, options: _Options, stream: bool = False) -> Table:
    try:
        if not path.exists():
            raise DataError(f"{path} does not exist. Check the path; relative paths start at {Path.cwd()}")
        if path.is_dir():
            return read_parquet_folder(path, options.columns, options.expected)
        if not path.is_file():
            raise DataError(
                f"{path} is {'a pipe' if path.is_fifo() else 'not a file'}, and a log is read more than once. "
                "Write the rows to a file first and name that file"
            )
        if path.stat().st_size == 0:
            raise DataError(f"{path} is empty (0 bytes)")
        return _read_file(path, options, stream)
    except (OSError, ValueError) as error:  # a file without permission, or a name that the system refuses
        raise DataError(f"{path} cannot be read: {error}") from error
    except pl.exceptions.PolarsError as error:
        raise DataError(f"{path} cannot be read: {_first_line_of(error)}") from error
    except pl.exceptions.PanicException as error:  # not a subclass of Exception, so nothing else would catch it
        raise DataError(f"{path} cannot be read because it seems damaged: {_first_line_of(error)}") from error


def _read_file(path: Path, options: _Options, stream: bool) -> Table:
    format = _detect_format(path) if options.format == "auto" else options.format
    if format == "parquet":
        return read_parquet([path], str(path), options.columns, options.expected)
    if format == "npy":
        return read_npy(path, options.columns, options.expected)
    refuse_bomb(path)
    if format == "jsonl":
        return read_json_lines(path, options.columns, options.expected)
    if format == "lists":
        first_line(path)  # raises if the file is not text
        return read_item_lists(path)
    return read_delimited(path, options.columns, format, options.header, options.separator, options.expected, stream)


def _detect_format(path: Path) -> Format:
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] in COMPRESSED:
        suffixes.pop()
    suffix = suffixes[-1] if suffixes else ""
    if suffix in _BY_SUFFIX:
        return _BY_SUFFIX[suffix]
    with path.open("rb") as file:
        if file.read(4) == b"PAR1":
            return "parquet"
    if suffix == ".txt":
        refuse_bomb(path)
        # The lists published with NGCF and LightGCN contain only blanks; anything else is a delimited table.
        return "csv" if any(mark in first_line(path)[0] for mark in ",;\t|") else "lists"
    return "csv"


def _first_line_of(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
