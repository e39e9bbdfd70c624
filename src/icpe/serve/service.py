"""The state of one serving process: its models, what it has served, and how it starts and stops."""

import asyncio
import logging
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from fastapi import FastAPI

from icpe.errors import IcpeError
from icpe.files import read_json, write_json
from icpe.serve.exposure import ExposureCounter
from icpe.serve.problems import RequestError
from icpe.serve.reload import Board, Reloader
from icpe.serve.settings import ServeSettings
from icpe.serve.shelf import Shelf
from icpe.serve.telemetry import Telemetry

_LOG = logging.getLogger("icpe.serve")
FAILURE = "failure.json"


class Service:
    """Everything that requests need.

    Args:
        settings: what to serve.
        shelf: models that are loaded already; with None, they are loaded when the process starts.
    """

    def __init__(self, settings: ServeSettings, shelf: Shelf | None = None) -> None:
        self.settings, self._shelf = settings, shelf
        self.exposure = ExposureCounter(settings.board)
        self.telemetry = Telemetry(lambda: self._shelf, self.exposure, settings.board)
        self.reloader = Reloader(settings, lambda: self._shelf, self._use)
        self.failure: Exception | None = None
        self._board = None if settings.board is None else Board(settings.board)

    @property
    def ready(self) -> bool:
        """Whether the models are loaded, in this process and in all others that take requests."""
        others = [] if self._board is None else self._board.others()
        return self._shelf is not None and all(one.get("state") != "loading" for one in others)

    @property
    def shelf(self) -> Shelf:
        """The models in use. A request must take them once.

        Raises:
            RequestError: they are not loaded yet.
        """
        if self._shelf is None:
            raise RequestError(
                503, "loading", "the models are still being loaded; try again when /health/ready says so"
            )
        return self._shelf

    @asynccontextmanager
    async def lifespan(self, app: FastAPI) -> AsyncIterator[None]:
        """Load the models beside the running server, and follow the reloads of other processes.

        A process that replaces a dead one takes requests only when it can answer them, since others can already.
        """
        tasks = [asyncio.create_task(self._load())]
        if self._board is not None:
            if any(one.get("state") != "loading" for one in self._board.others()):
                await tasks[0]
            else:
                self._board.report("", "loading")
            tasks.append(asyncio.create_task(self.reloader.follow()))
        yield
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _use(self, shelf: Shelf) -> None:
        self._shelf = shelf
        self.exposure.forget_others(shelf.versions)

    async def _load(self) -> None:
        if self._shelf is not None:
            return
        try:
            self._use(await asyncio.to_thread(Shelf.load, self.settings))
        except Exception as error:  # whatever it was, a process without models must not go on silently
            if not isinstance(error, IcpeError | OSError):
                _LOG.exception("the models cannot be loaded")
            self._give_up(error)
        else:
            if self._board is not None:
                self._board.report("", "serving")
            _LOG.info("ready: %s", ", ".join(f"{name} {version}" for name, version in self.shelf.versions.items()))

    def _give_up(self, error: Exception) -> None:
        """Stop the server, which cannot serve anything; with several processes, all of them."""
        self.failure = error
        if self.settings.board is None:
            signal.raise_signal(signal.SIGTERM)
        else:
            write_json(self.settings.board / FAILURE, {"message": str(error)})
            os.kill(os.getppid(), signal.SIGTERM)


def failure_on(board: Path) -> str | None:
    """Return why a process could not start, or None if none has failed."""
    try:
        message: str = read_json(board / FAILURE)["message"]
    except FileNotFoundError:
        return None
    return message
