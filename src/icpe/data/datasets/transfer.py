"""Download of one file over HTTP, with a checksum and a progress bar."""

import socket
import ssl
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.client import HTTPException
from pathlib import Path
from typing import TYPE_CHECKING, Any

from icpe.data.datasets.catalogue import RemoteFile
from icpe.data.datasets.verify import checksum

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

TIMEOUT = (10.0, 30.0)
"""Seconds to wait for a connection, and between two pieces of the answer."""

_CHUNK = 1 << 16

# Causes of a failed request. The first one that occurs in the chain of exceptions is reported.
_CAUSES: tuple[tuple[type[BaseException], str], ...] = (
    (ConnectionRefusedError, "connection refused"),
    (socket.gaierror, "host not found (no network?)"),
    (TimeoutError, "no answer in time"),
    (ssl.SSLError, "no secure connection"),
    (HTTPException, "the transfer was cut off"),
    (ConnectionError, "the transfer was cut off"),
)


class BadDownloadError(Exception):
    """What the server sent cannot be used. The text becomes part of a DataError."""


def transfer(remote: RemoteFile, path: Path, progress: bool) -> None:
    """Download a file to ``path`` and check it.

    Raises:
        BadDownloadError: the request failed, or the file is empty or has a wrong checksum.
    """
    import pooch
    import requests  # what pooch downloads with

    with ExitStack() as opened, _progress_bar(path.name, progress) as bar:

        def close_at_end(response: requests.Response, **_: Any) -> None:
            opened.callback(response.close)

        download = pooch.HTTPDownloader(
            progressbar=bar,
            chunk_size=_CHUNK,
            timeout=TIMEOUT,
            # Without compression the announced length is that of the file, so an incomplete transfer is noticed.
            headers={"Accept-Encoding": "identity"},
            # pooch leaves the connection of a refused request open.
            hooks={"response": close_at_end},
        )
        try:
            download(remote.url, str(path), None)
        except (requests.RequestException, ValueError) as error:  # ValueError: an invalid header
            raise BadDownloadError(_reason(error)) from error
    if path.stat().st_size == 0:
        raise BadDownloadError("the server sent an empty file")
    if remote.checksum is not None and (got := checksum(path, remote.checksum)) != remote.checksum:
        raise BadDownloadError(f"the checksum is wrong, expected {remote.checksum}, got {got}")


def _reason(error: BaseException) -> str:
    """The reason why a request failed, in a few words."""
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
        self._progress.update(self._task, total=size or None)  # 0: the server did not announce a size

    def update(self, size: int) -> None:
        self._progress.advance(self._task, size)

    def reset(self) -> None:
        self._progress.update(self._task, completed=0)

    def close(self) -> None:
        """Do nothing: the bar ends with its context."""


@contextmanager
def _progress_bar(label: str, show: bool) -> "Iterator[_Bar | bool]":
    """A bar on standard error; False, which pooch takes as no bar, if it is not wanted or not a terminal."""
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
