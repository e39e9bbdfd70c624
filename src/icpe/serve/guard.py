"""What every request passes first: the key, the limit of the body, and the clock."""

import hmac
import time

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from icpe.errors import ConfigError
from icpe.serve.problems import RequestError
from icpe.serve.settings import BODY_LIMIT, KEY_VARIABLE
from icpe.serve.telemetry import Telemetry

KEY_HEADER = "X-API-Key"
PROTECTED = ("/v1/", "/page/", "/admin/")
"""Paths that need the key. Health checks, metrics, the frame of the page and the description of the API do not."""


class Guard:
    """ASGI middleware that checks the key and the size of the body, and times every answer.

    Args:
        app: the application behind it.
        telemetry: takes the times.
        key: the key that clients must send, or None if none is needed.
        limit: largest body in bytes.
    """

    def __init__(self, app: ASGIApp, telemetry: Telemetry, key: str | None, limit: int = BODY_LIMIT) -> None:
        self.app, self._telemetry, self._limit = app, telemetry, limit
        self._key = None if key is None else key.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        start, status = time.perf_counter(), 500

        async def note_status(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            problem = self._check(scope["path"], Headers(scope=scope))
            if problem is None:
                await self.app(scope, _Limited(receive, self._limit), note_status)
            else:
                await problem.as_response()(scope, receive, note_status)
        finally:
            self._telemetry.observe(_endpoint(scope), status, time.perf_counter() - start)

    def _check(self, path: str, headers: Headers) -> RequestError | None:
        if path.startswith(PROTECTED) and not self._has_key(headers):
            return RequestError(401, "wrong_key", f"send the key of this service in the header {KEY_HEADER}")
        length = headers.get("content-length", "")
        if length.isdecimal() and int(length) > self._limit:
            return too_large(self._limit)
        return None

    def _has_key(self, headers: Headers) -> bool:
        # Headers are latin-1. compare_digest takes the same time wherever the keys differ.
        return self._key is None or hmac.compare_digest(headers.get(KEY_HEADER, "").encode("latin-1"), self._key)


class _Limited:
    """The body of a request, which fails when it grows beyond the limit, whatever its header has announced."""

    def __init__(self, receive: Receive, limit: int) -> None:
        self._receive, self._left, self._limit = receive, limit, limit

    async def __call__(self) -> Message:
        message = await self._receive()
        self._left -= len(message.get("body", b""))
        if self._left < 0:
            raise too_large(self._limit)
        return message


def too_large(limit: int) -> RequestError:
    """Return the error for a body beyond the limit."""
    return RequestError(413, "body_too_large", f"the body is larger than {limit:,} bytes; send smaller batches")


def check_key(key: str | None) -> str | None:
    """Return the key from the environment, or None if it is not set.

    Raises:
        ConfigError: the key is empty or has characters that a header cannot carry.
    """
    if key is None:
        return None
    if not key or not key.isascii() or not key.isprintable() or key != key.strip():
        raise ConfigError(
            f"{KEY_VARIABLE} is set to a text that no header can carry; expected printable ASCII characters, at least "
            f"one, without spaces around them. Unset it to serve without a key"
        )
    return key


def _endpoint(scope: Scope) -> str:
    """The path of the matched route, so that made-up paths do not become metrics of their own."""
    route = scope.get("route")
    return getattr(route, "path", "other")
