"""The application: everything of the service put together, for any ASGI server."""

import os

from fastapi import FastAPI

from icpe.serve.guard import Guard, check_key
from icpe.serve.page import file_routes, page_routes
from icpe.serve.problems import answer_errors
from icpe.serve.routes import api_routes, health_routes
from icpe.serve.service import Service
from icpe.serve.settings import KEY_VARIABLE, ServeSettings

_ABOUT = (
    "Recommendations with a dial between hits and niche items. Where the service was started with a key, send it in "
    "the header `X-API-Key`."
)


def create_app(service: Service, key: str | None = None) -> FastAPI:
    """Return the application of a service.

    Args:
        service: the models and what they have served.
        key: the key that clients must send, or None if none is needed.
    """
    # The pages of FastAPI load scripts from elsewhere; ours works without a network.
    app = FastAPI(
        title="icpe",
        version="1",
        description=_ABOUT,
        docs_url=None,
        redoc_url=None,
        lifespan=service.lifespan,
    )
    app.state.service = service
    answer_errors(app)
    for router in (api_routes(service), health_routes(service), page_routes(service), file_routes()):
        app.include_router(router)
    app.add_middleware(Guard, telemetry=service.telemetry, key=key)
    return app


def worker_app() -> FastAPI:
    """Return the application of a worker process, from the settings in its environment."""
    return create_app(Service(ServeSettings.published()), check_key(os.environ.get(KEY_VARIABLE)))
