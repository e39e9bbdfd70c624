"""Running the service: the socket, one or several processes, and a clean end."""

import os
import shutil
import signal
import socket
import tempfile
from pathlib import Path
from typing import Any

import uvicorn
from uvicorn.supervisors import Multiprocess

from icpe.errors import DataError, IcpeError
from icpe.serve.settings import KEY_VARIABLE, ServeSettings

_IDLE = 75  # seconds that an unused connection stays open, longer than proxies keep theirs
_GRACE = 10  # seconds that requests get to finish when the service stops
_LOGGING: dict[str, Any] = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"format": "%(asctime)s %(process)d %(levelname)s %(message)s"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line", "stream": "ext://sys.stderr"}},
    "loggers": {
        "icpe.serve": {"handlers": ["stderr"], "level": "INFO", "propagate": False},
        "uvicorn": {"handlers": ["stderr"], "level": "WARNING", "propagate": False},
    },
}


def listen(host: str, port: int) -> socket.socket:
    """Return a socket with this address; port 0 takes any free one.

    Raises:
        IcpeError: the address cannot be used.
    """
    found = None
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        # asyncio sends small packets at once only on sockets that name TCP; else answers wait 40 ms for the client.
        found = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind(address)
    except OSError as error:
        if found is not None:
            found.close()
        raise IcpeError(
            f"cannot listen on {host} port {port}: {error.strerror or error}. Choose another address with --host and "
            "--port"
        ) from error
    found.set_inheritable(True)
    return found


def answer_requests(settings: ServeSettings, sock: socket.socket) -> None:
    """Answer requests until the process is told to stop.

    Raises:
        DataError: the models cannot be loaded.
        KeyboardInterrupt: after Ctrl-C, when all requests under way have been answered. SIGTERM ends without an error.
    """
    if settings.workers == 1:
        _serve_here(settings, sock)
        return
    board = Path(tempfile.mkdtemp(prefix="icpe-serve-"))
    try:
        _serve_with_workers(settings.model_copy(update={"board": board}), sock)
    finally:
        shutil.rmtree(board, ignore_errors=True)


def _serve_here(settings: ServeSettings, sock: socket.socket) -> None:
    from icpe.serve.app import create_app
    from icpe.serve.guard import check_key
    from icpe.serve.service import Service

    service = Service(settings)
    app = create_app(service, check_key(os.environ.get(KEY_VARIABLE)))
    # uvicorn stops at SIGTERM and then sends the signal again, so that it would end the process by its default action.
    signal.signal(signal.SIGTERM, lambda *_: None)
    uvicorn.Server(_config(app, settings)).run([sock])
    if service.failure is not None:
        raise service.failure


def _serve_with_workers(settings: ServeSettings, sock: socket.socket) -> None:
    from icpe.serve.service import failure_on

    assert settings.board is not None
    settings.publish()
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(settings.board)  # read when the workers import prometheus-client
    supervisor = _Supervisor(_config("icpe.serve.app:worker_app", settings), [sock])
    supervisor.run()
    message = failure_on(settings.board)
    if message is not None:
        raise DataError(message)
    if supervisor.interrupted:
        raise KeyboardInterrupt


class _Supervisor(Multiprocess):
    """uvicorn's supervisor, which also knows whether it ended by Ctrl-C."""

    interrupted = False

    def handle_int(self) -> None:
        """Stop all workers."""
        self.interrupted = True
        super().handle_int()


def _config(app: Any, settings: ServeSettings) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        factory=isinstance(app, str),
        workers=settings.workers,
        log_config=_LOGGING,
        log_level=None,
        access_log=False,
        server_header=False,
        timeout_keep_alive=_IDLE,
        timeout_graceful_shutdown=_GRACE,
    )
