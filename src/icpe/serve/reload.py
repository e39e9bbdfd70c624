"""Loading models again while requests are answered.

A process loads the new files beside the models it serves, and then replaces the whole shelf in one step. Several
processes agree in two steps through small files in a folder they share: each loads first and says so, and only when all
have loaded do they replace their shelves. If one of them cannot, all keep what they have.
"""

import asyncio
import logging
import os
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import psutil

from icpe.errors import IcpeError
from icpe.files import read_json, write_json
from icpe.files.lock import release, try_lock
from icpe.serve.problems import RequestError
from icpe.serve.settings import ServeSettings
from icpe.serve.shelf import Shelf

_LOG = logging.getLogger("icpe.serve")
_LOOK_EVERY = 0.05  # seconds between looks at the board
_PATIENCE = {"loaded": 600.0, "used": 10.0}  # seconds that other processes get


class Board:
    """The folder in which processes tell each other about reloads."""

    def __init__(self, folder: Path) -> None:
        self.folder, self._order = folder, folder / "reload.json"

    @contextmanager
    def leading(self) -> Iterator[bool]:
        """Whether this process leads reloads from here on; only one does at a time, and its end ends that too."""
        handle = try_lock(self.folder)
        try:
            yield handle is not None
        finally:
            if handle is not None:
                release(handle)

    def order(self) -> dict[str, Any]:
        """Return the current reload: its number, its models, its phase and the process that leads it."""
        return _read(self._order)

    def give_order(self, **order: Any) -> None:
        """Tell all processes what to do."""
        write_json(self._order, order)

    def report(self, number: str, state: str) -> None:
        """Say how far this process is with a reload."""
        write_json(self.folder / f"worker-{os.getpid()}.json", {"number": number, "state": state})

    def others(self) -> list[dict[str, str]]:
        """Return the last reports of the other living processes."""
        files = {int(file.stem.partition("-")[2]): file for file in self.folder.glob("worker-*.json")}
        return [_read(file) for pid, file in files.items() if pid != os.getpid() and psutil.pid_exists(pid)]

    def states(self, number: str) -> list[str]:
        """Return how far the other living processes are with a reload; "" for those that have not begun."""
        return [one["state"] if one.get("number") == number else "" for one in self.others()]


class Reloader:
    """Replaces the models of this process, together with those of other processes if there are any.

    Args:
        settings: what is served.
        current: returns the shelf in use.
        replace: puts another shelf into use.
    """

    def __init__(
        self, settings: ServeSettings, current: Callable[[], Shelf | None], replace: Callable[[Shelf], None]
    ) -> None:
        self._settings, self._current, self._replace = settings, current, replace
        self._board = None if settings.board is None else Board(settings.board)
        self._running = asyncio.Lock()

    async def reload(self, names: list[str] | None) -> tuple[dict[str, str], list[str], int]:
        """Return the versions served from now on, the models that changed, and the number of processes.

        Raises:
            RequestError: a name is unknown, another reload is running, or a model cannot be loaded.
        """
        before = self._current()
        busy = RequestError(409, "busy", "models are being loaded already; try again when that has finished")
        if before is None or self._running.locked():
            raise busy
        chosen = names or list(before.models)
        for name in chosen:
            before.named(name)
        async with self._running:
            with nullcontext(True) if self._board is None else self._board.leading() as leads:
                if not leads:
                    raise busy
                after, others = await self._lead(before, chosen)
        changed = [name for name in chosen if after.versions[name] != before.versions[name]]
        return after.versions, changed, 1 + others

    async def _lead(self, before: Shelf, chosen: list[str]) -> tuple[Shelf, int]:
        """Return the new shelf, which all processes use from now on, and the number of other processes."""
        number = uuid.uuid4().hex
        self._order(number, chosen, "load")
        try:
            after = await asyncio.to_thread(before.reloaded, self._settings, chosen)
        except (IcpeError, OSError) as error:
            self._order(number, chosen, "drop")
            raise RequestError(409, "not_loaded", f"{error}. The service keeps the models it has") from error
        states = await self._wait(number, "loaded")
        if any(state != "loaded" for state in states):
            self._order(number, chosen, "drop")
            raise RequestError(409, "not_loaded", "another process cannot load the models; all keep those they have")
        self._order(number, chosen, "use")
        self._replace(after)
        await self._wait(number, "used")
        return after, len(states)

    async def follow(self) -> None:
        """Take part in the reloads that other processes lead, until cancelled."""
        if self._board is None:
            return
        done, loaded = "", None
        while True:
            await asyncio.sleep(_LOOK_EVERY)
            order = self._board.order()
            number, current = order.get("number", ""), self._current()
            if not number or order["leader"] == os.getpid() or current is None or order["phase"] == "drop":
                continue
            if number != done:  # in the phase "use" if this process has just been started
                done, loaded = number, await self._load(current, number, order["models"])
            if order["phase"] == "use" and loaded is not None:
                self._replace(loaded)
                loaded = None
                self._board.report(number, "used")

    async def _load(self, current: Shelf, number: str, models: list[str]) -> Shelf | None:
        assert self._board is not None
        try:
            loaded = await asyncio.to_thread(current.reloaded, self._settings, models)
        except Exception:  # whatever it was, the leader must hear of it
            _LOG.exception("this process cannot load the models again")
            self._board.report(number, "failed")
            return None
        self._board.report(number, "loaded")
        return loaded

    def _order(self, number: str, models: list[str], phase: str) -> None:
        if self._board is not None:
            self._board.give_order(number=number, models=models, phase=phase, leader=os.getpid())

    async def _wait(self, number: str, wanted: str) -> list[str]:
        """Return how far the other processes are once all have got there, or one of them has failed."""
        if self._board is None:
            return []
        end = time.monotonic() + _PATIENCE[wanted]
        while True:
            states = self._board.states(number)
            if all(state == wanted for state in states) or "failed" in states or time.monotonic() > end:
                return states
            await asyncio.sleep(_LOOK_EVERY)


def _read(path: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = read_json(path)
    except (OSError, ValueError):  # not written yet
        return {}
    return found
