"""Anybody's log → a :class:`~icpe.data.readers.table.Table`: which reader, and what it must be told."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, get_args

import polars as pl

from icpe.data.readers import binary, text
from icpe.data.readers.frames import from_frame
from icpe.data.readers.table import INTERACTION, Columns, Table, Wanted, join
from icpe.errors import ConfigError, DataError

Format = Literal["auto", "parquet", "csv", "tsv", "inter", "lists", "hetrec", "npy"]

_BY_SUFFIX: dict[str, Format] = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".tsv": "tsv",
    ".inter": "inter",
    ".dat": "hetrec",
    ".npy": "npy",
}


def read_table(
    source: Any,
    columns: Columns | None = None,
    format: Format = "auto",
    header: bool = True,
    separator: str | None = None,
    wanted: Wanted = INTERACTION,
) -> Table:
    """Read a path, several paths that make one log, or a frame. Arguments as in ``Interactions.read``."""
    if format not in get_args(Format):
        raise ConfigError(f"format is {format!r}; expected one of {', '.join(get_args(Format))}")
    if isinstance(source, Sequence) and not isinstance(source, str) and len(source) == 1:
        source = source[0]
    if isinstance(source, str | Path):
        stream = wanted is INTERACTION  # other columns are kept as they are
        return _read_path(Path(source), columns, format, header, separator, wanted, stream)
    if isinstance(source, Sequence) and source and all(isinstance(one, str | Path) for one in source):
        return join([_read_path(Path(one), columns, format, header, separator, wanted) for one in source])
    return from_frame(source, columns, wanted)


def _read_path(
    path: Path,
    columns: Columns | None,
    format: Format,
    header: bool,
    separator: str | None,
    wanted: Wanted,
    stream: bool = False,
) -> Table:
    try:
        if not path.exists():
            raise DataError(f"{path} does not exist. Check the path; relative paths start at {Path.cwd()}")
        if path.is_dir():
            return binary.read_parquet_folder(path, columns, wanted)
        if path.stat().st_size == 0:
            raise DataError(f"{path} is empty (0 bytes)")
        if format == "auto":
            format = _guess_format(path)
        if format == "parquet":
            return binary.read_parquet([path], str(path), columns, wanted)
        if format == "npy":
            return binary.read_npy(path, columns, wanted)
        return text.read_text(path, columns, format, header, separator, stream, wanted)
    except (OSError, ValueError) as error:  # an unreadable file, a name the system refuses
        raise DataError(f"{path} cannot be read: {error}") from error
    except pl.exceptions.PolarsError as error:
        raise DataError(f"{path} cannot be read: {_first_line(error)}") from error
    except pl.exceptions.PanicException as error:  # polars gave up inside; not an Exception, so it would pass above
        raise DataError(f"{path} cannot be read, it seems damaged: {_first_line(error)}") from error


def _guess_format(path: Path) -> Format:
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] in text.COMPRESSED:
        suffixes.pop()
    suffix = suffixes[-1] if suffixes else ""
    if suffix in _BY_SUFFIX:
        return _BY_SUFFIX[suffix]
    with path.open("rb") as file:
        if file.read(4) == b"PAR1":
            return "parquet"
    if suffix == ".txt":
        # Lists as published with NGCF and LightGCN have blanks only; anything else is a delimited table.
        return "csv" if any(mark in text.first_line(path) for mark in ",;\t|") else "lists"
    return "csv"


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
