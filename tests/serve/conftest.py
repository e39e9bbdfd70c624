"""Served models on small logs: whole numbers and texts as ids, and names that try to be markup."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import polars as pl
import pytest
from fastapi import FastAPI

from icpe import ICPE, MF, Interactions, Model, Normal, load, split
from icpe.serve.app import create_app
from icpe.serve.service import Service
from icpe.serve.settings import ServeSettings
from icpe.serve.shelf import Shelf
from icpe.testing import skewed_log

HOSTILE = "<script>alert('$1')</script> & \"quoted\""


def train(log: Interactions, method: type = ICPE, seed: int = 0) -> Model:
    parts = split.random(log, seed=0)
    return method(MF(dim=8)).fit(parts.train, valid=parts.valid, epochs=3, seed=seed)


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Folders of two models with whole numbers as ids, and of one with texts and names."""
    base = tmp_path_factory.mktemp("served")
    log = skewed_log(users=60, items=40, pairs=900)
    frame = log.to_frame().select(
        user_id=pl.format("u{}", "user_id"), item_id=pl.when(pl.col("item_id") == 0).then(pl.lit("i/0 ü?#")).otherwise(pl.format("i{}", "item_id"))
    )  # fmt: skip
    names = frame.select("item_id").unique().with_columns(name=pl.format(HOSTILE.replace("{", "") + " {}", "item_id"))
    models = {
        "main": train(log),
        "other": train(log, Normal),
        "texts": train(Interactions.read(frame, item_info=names)),
    }
    for name, model in models.items():
        model.save(base / name)
    return {name: base / name for name in models}


@pytest.fixture(scope="session")
def models(folders: dict[str, Path]) -> dict[str, Model]:
    """The same models, loaded apart from the service."""
    return {name: load(folder) for name, folder in folders.items()}


class Client:
    """A client of an application in this process, without sockets."""

    def __init__(self, app: FastAPI) -> None:
        self.app = app
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        self._client = httpx.AsyncClient(transport=transport, base_url="http://service")
        self._runner = asyncio.Runner()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self._runner.run(self._client.aclose())
        self._runner.close()

    def together(self, work: Callable[[httpx.AsyncClient], Any]) -> Any:
        """Return the result of a coroutine that may have many requests under way."""
        return self._runner.run(work(self._client))

    def request(self, method: str, path: str, **options: Any) -> httpx.Response:
        return self._runner.run(self._client.request(method, path, **options))

    def get(self, path: str, **options: Any) -> httpx.Response:
        return self.request("GET", path, **options)

    def post(self, path: str, **options: Any) -> httpx.Response:
        return self.request("POST", path, **options)


@pytest.fixture
def connect() -> Iterator[Callable[[FastAPI], Client]]:
    """Return clients of applications, closed at the end of the test."""
    with ExitStack() as stack:
        yield lambda app: stack.enter_context(Client(app))


@pytest.fixture
def serve(folders: dict[str, Path], connect: Callable[[FastAPI], Client]) -> Callable[..., Client]:
    """Return a client of a service in this process, whose models are loaded."""

    def begin(*names: str, key: str | None = None, shares: dict[str, float] | None = None) -> Client:
        chosen = {name: folders[name] for name in names or ("main", "other")}
        settings = ServeSettings(folders=chosen, shares=shares or {})
        return connect(create_app(Service(settings, Shelf.load(settings)), key))

    return begin
