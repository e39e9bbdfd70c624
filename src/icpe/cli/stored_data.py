"""The flag ``--stream``: logs that are larger than memory."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from icpe.data.stored import StoredLog

stream_option = click.option(
    "--stream",
    is_flag=True,
    help="For Parquet files that are larger than memory: keep the interactions in temporary files beside the output. "
    "The result is the same.",
)
_TEXT_ONLY = {"separator": "--separator", "no_header": "--no-header", "data_dir": "--data-dir"}


@contextmanager
def open_stored(output: Path | None, **options: Any) -> "Iterator[tuple[StoredLog, Path]]":
    """Yield the log that ``--stream`` reads, filtered to its k-core, and a folder for further files.

    Args:
        output: what the command writes; the temporary files are beside it, or in the system's folder for such files.
        options: the options of :func:`icpe.cli.options.data_options`.

    Raises:
        ConfigError: an option does not suit Parquet files.
    """
    from icpe.data.stored import read_stored
    from icpe.errors import ConfigError

    given = {name: value for name, value in options.items() if value not in (None, False)}
    for name, flag in _TEXT_ONLY.items():
        if name in given:
            raise ConfigError(f"--stream reads Parquet files by their path and has no use for {flag}; leave it out")
    if given.pop("format", "parquet") != "parquet":
        raise ConfigError("--stream reads Parquet files only; leave out --format, or convert the log")
    source, k_core = given.pop("data"), given.pop("k_core", None)
    place = None if output is None else output.absolute().parent
    if place is not None:
        place.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".icpe-", dir=place) as folder:
        log = read_stored(source, Path(folder, "log"), **given)
        if k_core is not None:
            complete, log = log, log.k_core(k_core, Path(folder, "core"))
            shutil.rmtree(complete.folder)
        yield log, Path(folder)
