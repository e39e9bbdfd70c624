"""Catalogue entry → the folder that holds its files, found on this machine or downloaded into the cache.

Downloads go through pooch into a temporary folder beside the final one. A file gets its final name only when it is
whole and its checksum is right, so neither a crash nor a bad download can leave half a file or spoil an old one.
"""

import os
import shutil
import socket
import ssl
import sys
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.client import HTTPException
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from icpe.columns import ITEM, NAME
from icpe.data.datasets.catalogue import Dataset, RemoteFile
from icpe.errors import ConfigError, DataError

if TYPE_CHECKING:
    import polars as pl
    from rich.progress import Progress, TaskID

_TIMEOUT = (10.0, 30.0)  # seconds to connect, and between two pieces of the answer
_CHUNK = 1 << 16

# The causes below a failed request, in the order in which they are looked for.
_CAUSES: tuple[tuple[type[BaseException], str], ...] = (
    (ConnectionRefusedError, "connection refused"),
    (socket.gaierror, "host not found (no network?)"),
    (TimeoutError, "no answer in time"),
    (ssl.SSLError, "no secure connection"),
    (HTTPException, "the transfer was cut off"),
    (ConnectionError, "the transfer was cut off"),
)


class _BadDownloadError(Exception):
    """What came over the wire cannot be used; the text becomes part of a DataError."""


def cache_dir() -> Path:
    """Return the folder for downloads: ``ICPE_CACHE`` if set, else the system's cache folder for ``icpe``."""
    if named := os.environ.get("ICPE_CACHE"):
        return Path(named).expanduser()
    import pooch

    return Path(pooch.os_cache("icpe"))


def locate(dataset: Dataset, data_dir: Path | None = None) -> Path | None:
    """Return the first folder that holds all files of the data set, or None.

    Looks for ``<place>/<name>/<file>`` in ``data_dir``, then in the folder named by ``ICPE_DATA``, then in the cache.

    Raises:
        DataError: a folder may not be looked into.
    """
    if not dataset.files:
        return None
    for place in _places(data_dir):
        folder = place / dataset.name
        try:
            if all((folder / file).is_file() for file in dataset.files):
                return folder
        except OSError as error:
            raise DataError(f"cannot look for {dataset.name} in {folder}: {error.strerror or error}") from error
    return None


def fetch(dataset: Dataset, data_dir: Path | None = None, *, progress: bool = False, force: bool = False) -> Path:
    """Return the folder with the data set's files; what is nowhere on this machine is downloaded into the cache.

    Args:
        dataset: entry of the catalogue.
        data_dir: folder to look in first.
        progress: show a bar on standard error, if that is a terminal.
        force: download again into the cache, wherever the files lie already.

    Raises:
        ConfigError: the data set is generated, so there is nothing to fetch.
        DataError: the download failed, or the data set cannot be downloaded; the message says what to do by hand.
    """
    if not dataset.files:
        raise ConfigError(f"{dataset.name} is generated when it is used; nothing needs fetching")
    if not force and (found := locate(dataset, data_dir)):
        return found
    if not dataset.remote:
        raise DataError(_not_downloadable(dataset, data_dir, force))
    target = cache_dir() / dataset.name
    for remote in dataset.remote:
        # Files that came through before an interruption are not asked for again.
        if force or not _is_there(dataset, remote, target):
            _bring(dataset, remote, target, progress)
    return target


def item_names(dataset: Dataset, folder: Path) -> "pl.DataFrame | None":
    """Return a frame ``item_id, name`` for display, or None where the data set has no names or the file is not there.

    Raises:
        DataError: the file is there but cannot be read.
    """
    if dataset.item_file is None or not (folder / dataset.item_file).is_file():
        return None
    import polars as pl

    path = folder / dataset.item_file
    try:
        # Names contain quotation marks that do not quote anything.
        frame = pl.read_csv(
            path, separator="\t", quote_char=None, columns=["id", "name"], schema_overrides={"name": pl.String}
        )
    except (pl.exceptions.PolarsError, OSError) as error:
        first = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise DataError(f"{path} cannot be read: {first}. Expected tab-separated columns 'id' and 'name'") from error
    return frame.select(pl.col("id").alias(ITEM), pl.col("name").alias(NAME))


def _places(data_dir: Path | None) -> list[Path]:
    named = os.environ.get("ICPE_DATA")
    own = [Path(data_dir).expanduser()] if data_dir is not None else []
    return own + ([Path(named).expanduser()] if named else []) + [cache_dir()]


def _is_there(dataset: Dataset, remote: RemoteFile, folder: Path) -> bool:
    if remote.archive:
        return all((folder / file).is_file() for file in dataset.files)
    path = folder / _file_name(remote)
    return path.is_file() and (remote.checksum is None or _checksum(path, remote.checksum) == remote.checksum)


def _bring(dataset: Dataset, remote: RemoteFile, target: Path, progress: bool) -> None:
    """Download one file or archive and put what is wanted of it into ``target``."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=f".{dataset.name}-", dir=target.parent) as name:
            download = Path(name) / _file_name(remote)
            _download(remote, download, progress)
            files = _unpack(dataset, download) if remote.archive else [download]
            target.mkdir(exist_ok=True)
            for file in files:
                file.replace(target / file.name)
    except _BadDownloadError as error:
        message = f"cannot download {dataset.name} from {remote.url}: {error}; {_advice(dataset)}"
        raise DataError(" ".join(message.split())) from error
    except OSError as error:
        raise DataError(
            f"cannot write {dataset.name} to {target}: {error.strerror or error}. "
            "Make room there, or name another folder with ICPE_CACHE"
        ) from error


def _download(remote: RemoteFile, path: Path, progress: bool) -> None:
    import pooch
    import requests  # what pooch downloads with

    with ExitStack() as opened, _progress_bar(path.name, progress) as bar:

        def close_at_end(response: requests.Response, **_: Any) -> None:
            opened.callback(response.close)

        download = pooch.HTTPDownloader(
            progressbar=bar,
            chunk_size=_CHUNK,
            timeout=_TIMEOUT,
            # Without compression on the way, the announced length is the file's, so a cut-off is noticed.
            headers={"Accept-Encoding": "identity"},
            # pooch leaves the connection of a refused request open.
            hooks={"response": close_at_end},
        )
        try:
            download(remote.url, str(path), None)
        except (requests.RequestException, ValueError) as error:  # ValueError: a header that makes no sense
            raise _BadDownloadError(_reason(error)) from error
    if path.stat().st_size == 0:
        raise _BadDownloadError("the server sent an empty file")
    if remote.checksum is not None and (got := _checksum(path, remote.checksum)) != remote.checksum:
        raise _BadDownloadError(f"the checksum is wrong, expected {remote.checksum}, got {got}")


def _unpack(dataset: Dataset, archive: Path) -> list[Path]:
    """Write the wanted members of a zip beside it, under their base names; nothing else of it is unpacked."""
    folder = archive.parent / "members"
    folder.mkdir()
    wanted = [*dataset.files, *([dataset.item_file] if dataset.item_file else [])]
    try:
        with zipfile.ZipFile(archive) as zipped:
            members = _members(zipped)
            if missing := [file for file in dataset.files if file not in members]:
                raise _BadDownloadError(f"the archive lacks {_and(missing)}")
            paths = [folder / file for file in wanted if file in members]
            for path in paths:
                with zipped.open(members[path.name]) as source, path.open("wb") as sink:
                    shutil.copyfileobj(source, sink)
    except (OSError, _BadDownloadError):
        raise
    except Exception as error:  # a damaged archive fails in as many ways as there are compressions
        raise _BadDownloadError(f"the archive is damaged ({error})") from error
    return paths


def _members(zipped: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    """Members by base name. Names that point out of the archive are no honest ones and left out."""
    members: dict[str, zipfile.ZipInfo] = {}
    for info in zipped.infolist():
        path = PurePosixPath(info.filename)
        if not (info.is_dir() or path.is_absolute() or ".." in path.parts):
            members.setdefault(path.name, info)
    return members


def _file_name(remote: RemoteFile) -> str:
    return PurePosixPath(urlsplit(remote.url).path).name


def _checksum(path: Path, like: str) -> str:
    """Checksum of a file in the notation and by the algorithm of ``like``."""
    import pooch

    algorithm = like.partition(":")[0]
    return f"{algorithm}:{pooch.file_hash(str(path), alg=algorithm)}"


def _reason(error: BaseException) -> str:
    """Say in a few words why a request failed."""
    response = getattr(error, "response", None)
    if response is not None:
        return f"the server answered {response.status_code} {response.reason or ''}".rstrip()
    chain = list(_chain(error))
    for kind, words in _CAUSES:
        if any(isinstance(one, kind) for one in chain):
            return words
    return str(error) or type(error).__name__


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _advice(dataset: Dataset) -> str:
    return (
        f"put {_and(dataset.files)} into {cache_dir() / dataset.name}/, "
        f"or name a folder with --data-dir or ICPE_DATA that holds {dataset.name}/"
    )


def _not_downloadable(dataset: Dataset, data_dir: Path | None, force: bool) -> str:
    looked = "" if force else f" and is not in {', '.join(str(place) for place in _places(data_dir))}"
    advice = _advice(dataset)
    return f"{dataset.name} cannot be downloaded{looked}. {dataset.by_hand} {advice[0].upper()}{advice[1:]}"


def _and(names: tuple[str, ...] | list[str]) -> str:
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


class _Bar:
    """The progress bar pooch asks for (``total``, ``update``, ``reset``, ``close``), drawn by rich."""

    def __init__(self, progress: "Progress", task: "TaskID") -> None:
        self._progress = progress
        self._task = task

    @property
    def total(self) -> float | None:
        return self._progress.tasks[self._task].total

    @total.setter
    def total(self, size: int) -> None:
        self._progress.update(self._task, total=size or None)  # 0: the server did not say

    def update(self, size: int) -> None:
        self._progress.advance(self._task, size)

    def reset(self) -> None:
        self._progress.update(self._task, completed=0)

    def close(self) -> None:
        """Do nothing: the bar goes with its context."""


@contextmanager
def _progress_bar(label: str, show: bool) -> "Iterator[_Bar | bool]":
    """Yield a bar on standard error, or False (no bar, for pooch) where nobody would see it."""
    if not (show and sys.stderr.isatty()):
        yield False
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        yield _Bar(progress, progress.add_task(label, total=None))
