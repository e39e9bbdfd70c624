"""The requests that sites send."""

import asyncio
from collections import defaultdict
from typing import Any

from fastapi import APIRouter, Response
from fastapi.responses import JSONResponse, PlainTextResponse
from prometheus_client import CONTENT_TYPE_LATEST
from pydantic_core import to_json

from icpe.serve.answers import Answer, ServedModel
from icpe.serve.problems import RequestError
from icpe.serve.schema import (
    BatchAnswer,
    BatchRequest,
    ErrorAnswer,
    Health,
    ModelsAnswer,
    RecommendAnswer,
    RecommendRequest,
    ReloadAnswer,
    ReloadRequest,
    SimilarAnswer,
    SimilarRequest,
)
from icpe.serve.service import Service
from icpe.serve.shelf import Shelf

_EXPECTED = {
    400: "The body cannot be read.",
    401: "The key is missing or wrong.",
    404: "The user, item or model is unknown.",
    413: "The body is too large.",
    422: "A value is wrong; the message says which, and what to send.",
    503: "The models are still being loaded.",
}
ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": ErrorAnswer, "description": text} for status, text in _EXPECTED.items()
}
_BUSY: dict[int | str, dict[str, Any]] = {
    409: {"model": ErrorAnswer, "description": "Another reload is running, or the files cannot be loaded."}
}


def as_json(content: Any) -> Response:
    """Return an answer. Its parts were made here, so they are not validated again."""
    return Response(to_json(content), media_type="application/json")


def api_routes(service: Service) -> APIRouter:
    """Return the routes below ``/v1`` and ``/admin``."""
    router = APIRouter(responses=ERRORS)

    # One list takes less time than handing the work to a thread and back; everything longer goes to threads.
    @router.post("/v1/recommend", response_model=RecommendAnswer, tags=["lists"])
    async def recommend(request: RecommendRequest) -> Response:
        """Recommend items to a user of the training data, or to a new user from a history."""
        served = service.shelf.choose(request.model, request.user_id)
        if request.history is None:
            answer = served.recommend(request)
        else:
            answer = await asyncio.to_thread(served.recommend, request)
        service.exposure.add(served, answer.items)
        return as_json(served.as_dict(answer))

    @router.post("/v1/recommend:batch", response_model=BatchAnswer, tags=["lists"])
    def recommend_batch(request: BatchRequest) -> Response:
        """Recommend items to several users at once. A request that cannot be met has an error in its place."""
        answers = []
        for served, found in answer_batch(service.shelf, request.requests):
            if isinstance(found, RequestError) or served is None:
                assert isinstance(found, RequestError)
                answers.append(found.as_dict())
            else:
                service.exposure.add(served, found.items)
                answers.append(served.as_dict(found))
        return as_json({"answers": answers})

    @router.post("/v1/similar", response_model=SimilarAnswer, tags=["lists"])
    def similar(request: SimilarRequest) -> Response:
        """List the items nearest to an item."""
        served = service.shelf.named(request.model)
        rows = served.rows(*served.similar(request))
        return as_json({"items": rows, "model": served.name, "model_version": served.version})

    @router.get("/v1/models", response_model=ModelsAnswer, tags=["service"])
    async def models() -> Response:
        """List the served models, the default one first."""
        shelf = service.shelf
        return as_json({"models": [describe(served, shelf) for served in shelf.models.values()]})

    @router.post("/admin/reload", response_model=ReloadAnswer, responses=_BUSY, tags=["service"])
    async def reload(request: ReloadRequest | None = None) -> Response:
        """Load models whose files have changed, and replace them at once while requests are answered."""
        try:
            versions, changed, workers = await service.reloader.reload(request.models if request else None)
        except RequestError as error:
            service.telemetry.count_reload(error.code)
            raise
        service.telemetry.count_reload("done")
        return as_json({"versions": versions, "changed": changed, "workers": workers})

    return router


def health_routes(service: Service) -> APIRouter:
    """Return the routes for whoever watches the service."""
    router = APIRouter(tags=["service"])

    @router.get("/health/live", response_model=Health)
    async def live() -> Response:
        """Say that the process runs."""
        return as_json({"status": "alive"})

    @router.get("/health/ready", response_model=Health, responses={503: {"model": Health}})
    async def ready() -> Response:
        """Say whether the models are loaded."""
        return JSONResponse(
            {"status": "ready"} if service.ready else {"status": "loading"}, 200 if service.ready else 503
        )

    @router.get("/metrics", response_class=PlainTextResponse)
    def metrics() -> Response:
        """Return latency and live exposure for Prometheus."""
        return Response(service.telemetry.as_text(), media_type=CONTENT_TYPE_LATEST)

    return router


def answer_batch(
    shelf: Shelf, requests: list[RecommendRequest]
) -> list[tuple[ServedModel | None, Answer | RequestError]]:
    """Return the model and the answer of every request. Requests that differ only in the user are ranked together."""
    alike: defaultdict[tuple[ServedModel, str], list[int]] = defaultdict(list)
    found: dict[int, tuple[ServedModel | None, Answer | RequestError]] = {}
    for place, request in enumerate(requests):
        try:
            served = shelf.choose(request.model, request.user_id)
        except RequestError as error:
            found[place] = None, error
            continue
        rest = request.model_dump_json(exclude={"user_id", "history", "model"})
        alike[served, rest].append(place)
    for (served, _), places in alike.items():
        answers: list[Answer | RequestError]
        try:
            answers = served.recommend_alike([requests[place] for place in places])
        except RequestError as error:  # the lists of items that they share are wrong
            answers = [error] * len(places)
        found.update((place, (served, answer)) for place, answer in zip(places, answers, strict=True))
    return [found[place] for place in range(len(requests))]


def describe(served: ServedModel, shelf: Shelf) -> dict[str, Any]:
    """Return what there is to know about a model."""
    model = served.model
    return {
        "name": served.name,
        "version": served.version,
        "method": model.method.label,
        "backbone": model.method.backbone.label,
        "users": len(model.log.users),
        "items": len(model.log.items),
        "beta": model.beta,
        "boost": model.boost,
        "share": shelf.share_of(served.name),
        "default": served.name == shelf.default,
        "has_front": model.has_front,
        "user_id_example": model.log.users[0],
        "item_id_example": model.log.items[0],
    }
