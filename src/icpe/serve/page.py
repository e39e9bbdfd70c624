"""The page at ``/`` and the requests of its script: users, histories, lists with names, fronts and live exposure.

Lists that are made for the page are not counted as served.
"""

import asyncio
import secrets
from importlib.resources import files
from typing import Annotated, Any

import numpy as np
import polars as pl
from fastapi import APIRouter, Query, Response

from icpe.errors import DataError
from icpe.recommender.ids import parse_ids
from icpe.report.user_cards import typical_users
from icpe.serve.answers import ServedModel
from icpe.serve.problems import RequestError
from icpe.serve.routes import ERRORS, as_json
from icpe.serve.schema import LARGEST_BETA, LONGEST_LIST, RecommendRequest
from icpe.serve.service import Service
from icpe.types import IntArray

_STATIC = files("icpe.serve") / "static"
_FILES = {
    "/": (_STATIC / "page.html", "text/html"),
    "/docs": (_STATIC / "docs.html", "text/html"),
    "/static/page.css": (_STATIC / "page.css", "text/css"),
    "/static/page.js": (_STATIC / "page.js", "text/javascript"),
    "/static/charts.js": (_STATIC / "charts.js", "text/javascript"),
    "/static/docs.js": (_STATIC / "docs.js", "text/javascript"),
    "/static/style.css": (files("icpe.report") / "templates" / "style.css", "text/css"),  # the look of the reports
}
# The page loads nothing from elsewhere and runs no script but its own, whatever names the log contains.
_HEADERS = {
    "Content-Security-Policy": "default-src 'self'; img-src 'self' data:; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-cache",
}
_SUGGESTIONS = 8
_HISTORY = 50
_TOP = 8
_POINTS = 41

ModelName = Annotated[str | None, Query(max_length=64)]
Typed = Annotated[str, Query(max_length=512)]


def file_routes() -> APIRouter:
    """Return the routes of the files that make up the page."""
    router = APIRouter(include_in_schema=False)
    for path, (file, kind) in _FILES.items():
        content = Response(file.read_bytes(), media_type=f"{kind}; charset=utf-8", headers=_HEADERS)
        router.add_api_route(path, lambda content=content: content, methods=["GET"], response_class=Response)
    return router


def page_routes(service: Service) -> APIRouter:
    """Return the routes that the script of the page asks."""
    router = APIRouter(prefix="/page", tags=["page"], responses=ERRORS)

    @router.get("/users")
    def users(prefix: Typed = "", model: ModelName = None) -> Response:
        """Suggest users whose ids begin with a text, or three typical users."""
        served = service.shelf.named(model)
        known = served.model.log.users
        if prefix:
            found = known.filter(known.cast(pl.String).str.starts_with(prefix)).head(_SUGGESTIONS).to_list()
        else:
            found = typical_users(served.model.log)
        return as_json({"users": [str(one) for one in found]})

    @router.get("/another")
    def another(model: ModelName = None) -> Response:
        """Choose a user at random."""
        known = service.shelf.named(model).model.log.users
        return as_json({"user": str(known[secrets.randbelow(len(known))])})

    @router.get("/user")
    def user(id: Typed, model: ModelName = None) -> Response:
        """Show what a user has used."""
        served = service.shelf.named(model)
        code = served.user_code(typed_user(id, served))
        if code < 0:
            raise RequestError(404, "unknown_user", f"user {id!r} is not in the training data of {served.name!r}")
        used = served.history(code)
        # The least popular items say most about a person's taste.
        order = np.argsort(served.model.log.item_counts[used], kind="stable")
        shown = named_rows(served, used[order][:_HISTORY])
        niche = int((~served.head[used]).sum())
        return as_json({"user_id": id, "count": len(used), "niche": niche, "items": shown})

    @router.get("/list")
    async def list_(
        id: Typed,
        n: Annotated[int, Query(ge=1, le=LONGEST_LIST)] = 20,
        beta: Annotated[float | None, Query(ge=-LARGEST_BETA, le=LARGEST_BETA, allow_inf_nan=False)] = None,
        model: ModelName = None,
    ) -> Response:
        """Show the list of a user with names. It is not counted as served."""
        served = service.shelf.named(model)
        request = RecommendRequest.model_validate({"user_id": typed_user(id, served), "n": n, "beta": beta})
        answer = await asyncio.to_thread(served.recommend, request)
        niche = float((~served.head[answer.items]).mean()) if len(answer.items) else 0.0
        rows = named_rows(served, answer.items)
        return as_json({"items": rows, "niche_share": niche, "beta": answer.beta, "version": served.version})

    @router.get("/front")
    async def front(model: ModelName = None) -> Response:
        """Show accuracy and exposure at every setting of a model's dial, or nothing if they were not measured."""
        served = service.shelf.named(model)
        if not served.model.has_front:
            return as_json({"points": [], "n": 0})
        found = served.model.front()
        return as_json({"points": found.table.to_dicts(), "n": found.n})

    @router.get("/exposure")
    def exposure() -> Response:
        """Show what has been served since the models were loaded."""
        return as_json({"models": [_exposure(service, served) for served in service.shelf.models.values()]})

    return router


def typed_user(text: str, served: ServedModel) -> Any:
    """Return a user id that somebody typed, in the type of the log.

    Raises:
        RequestError: the ids are whole numbers and the text is none, or one that no log can contain.
    """
    try:
        (found,) = parse_ids([text], served.model.log.users, "user")
    except DataError as error:
        raise RequestError(422, "wrong_id_type", str(error), ["id"]) from None
    served.user_code(found)
    return found


def named_rows(served: ServedModel, items: IntArray) -> list[dict[str, Any]]:
    """Return items with names and head marks."""
    ids = served.model.log.items.gather(items)
    names = served.model.log.item_names(ids).to_list()
    marks = served.head[items].tolist()
    return [
        {"id": str(item), "name": str(name), "head": head} for item, name, head in zip(ids, names, marks, strict=True)
    ]


def _exposure(service: Service, served: ServedModel) -> dict[str, Any]:
    found = service.exposure.of(served)
    best = np.argsort(-found.counts, kind="stable")[:_TOP]
    best = best[found.counts[best] > 0]
    counts = found.counts[best].tolist()
    top = [row | {"count": count} for row, count in zip(named_rows(served, best), counts, strict=True)]
    return {
        "model": served.name,
        "version": served.version,
        "lists": found.lists,
        "places": found.places,
        "niche_share": found.niche_share,
        "gini": found.gini,
        "coverage": found.coverage,
        "curve": found.curve(_POINTS).tolist(),
        "log_niche_share": _log_niche_share(served),
        "top": top,
    }


def _log_niche_share(served: ServedModel) -> float:
    """The share of niche items in the training data, to compare with."""
    counts = served.model.log.item_counts
    return float(counts[~served.head].sum() / max(counts.sum(), 1))
