"""A folder that is worked in: alone, or by several machines; always on the same data."""

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from icpe.compare._state import Cell, run_folder
from icpe.errors import ConfigError, DataError
from icpe.runs.run import SPLIT

_LOCK = ".lock"


class Handing(Protocol):
    """Says which runs are ours to do."""

    def claim(self, run: str) -> bool:
        """Whether the run is ours; False if it is done or on its way elsewhere."""

    def done(self, run: str) -> None:
        """It is finished, by whomever."""

    def failed(self, run: str, reason: str) -> None:
        """It could not be trained."""

    def beat(self) -> None:
        """Show that what was claimed is on its way; may be called often."""

    def give_back(self) -> None:
        """Let others have what was claimed and has not ended."""


class _All:
    """Everything is ours."""

    def claim(self, run: str) -> bool:
        return True

    def done(self, run: str) -> None:
        pass

    def failed(self, run: str, reason: str) -> None:
        pass

    def beat(self) -> None:
        pass

    def give_back(self) -> None:
        pass


@contextmanager
def hand_out(storage: str | None, folder: Path) -> Iterator[Handing]:
    """Who hands out the runs: nobody, or a database by its URL.

    Raises:
        ConfigError: Optuna is missing, or the database cannot be opened.
        IcpeError: the database stops answering.
    """
    if storage is None:
        yield _All()
        return
    from icpe.compare._run_claims import RunClaims  # late: brings Optuna
    from icpe.jobs._ledger import open_storage, quiet, told_in_one_line

    with quiet(), told_in_one_line():
        yield RunClaims(open_storage(storage), f"compare/{folder.resolve().name}")


@contextmanager
def alone_in(folder: Path, shared: bool) -> Iterator[None]:
    """Keep a second process on this machine from training the same runs.

    Raises:
        ConfigError: there is one, or the folder cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / _LOCK).open("a")
    except OSError as error:
        raise ConfigError(f"{folder} cannot be written to: {error.strerror}") from error
    with file:
        if not shared and sys.platform != "win32":
            import fcntl

            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise ConfigError(
                    f"another process is at work in {folder}; wait for it, or let both share the runs by --storage URL"
                ) from None
            except OSError:  # a file system without locks
                pass
        yield


def refuse_other_data(first: tuple[Cell, int], folder: Path, found: Sequence[tuple[Cell, int]]) -> None:
    """Read the data of the first run that is to be made, and compare them with those of runs that are there.

    Raises:
        ConfigError: the settings of the data are wrong.
        DataError: they cannot be read, or have changed.
    """
    cell, seed = first
    now = cell.run_config(seed).open_parts(progress=True).manifest["hashes"]
    for other, one in found:
        if one == seed and _cut(other) == _cut(cell):
            there = json.loads((run_folder(folder, other, one) / SPLIT).read_text(encoding="utf-8"))["hashes"]
            if there != now:
                raise DataError(
                    f"the data have changed since {run_folder(folder, other, one)} was made: content hashes of the "
                    "split differ; take another folder"
                )


def _cut(cell: Cell) -> tuple[dict[str, Any], dict[str, Any]]:
    return cell.config.data, cell.config.split
