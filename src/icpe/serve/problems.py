"""Errors of the service as JSON: a code for programs, and a sentence that says what to send instead."""

import logging
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from starlette.exceptions import HTTPException

from icpe.errors import IcpeError
from icpe.serve.schema import EXPECTED, BatchRequest, RecommendRequest, ReloadRequest, SimilarRequest
from icpe.shown import shortened

_LOG = logging.getLogger("icpe.serve")


class RequestError(HTTPException):
    """A request that cannot be met, with the status and the text of the answer."""

    def __init__(self, status: int, code: str, message: str, fields: Sequence[str] = ()) -> None:
        super().__init__(status, message)
        self.code, self.fields = code, tuple(fields)

    def as_dict(self) -> dict[str, Any]:
        """Return the body of the answer."""
        return {"error": {"code": self.code, "message": self.detail, "fields": list(self.fields)}}

    def as_response(self) -> JSONResponse:
        """Return the answer."""
        return JSONResponse(self.as_dict(), self.status_code)


def answer_errors(app: FastAPI) -> None:
    """Make the app answer every error in one form, without traces."""
    app.add_exception_handler(RequestError, _request_error)
    app.add_exception_handler(RequestValidationError, _validation_error)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(Exception, _failure)


async def _request_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestError)
    return error.as_response()


async def _validation_error(request: Request, error: Exception) -> JSONResponse:
    """Name the fields at fault, what was sent in them, and what to send."""
    assert isinstance(error, RequestValidationError)
    texts: dict[str, str] = {}
    for one in error.errors():
        if one["type"] == "json_invalid":
            reason = f"the body is not valid JSON: {one.get('ctx', {}).get('error', '')} at character {one['loc'][-1]}"
            return RequestError(422, "invalid_json", reason).as_response()
        if one["loc"] == ("body",) and one["type"] != "value_error":
            return RequestError(422, "invalid_request", _SEND_JSON).as_response()
        field = _field(one["loc"])
        texts.setdefault(field, _sentence(field, one, request.url.path))
    return RequestError(422, "invalid_request", "; ".join(texts.values()), [*filter(None, texts)]).as_response()


def _sentence(field: str, error: Mapping[str, Any], path: str) -> str:
    """Return what is wrong with a field and what to send."""
    own = error["msg"].removeprefix("Value error, ")
    if error["type"] == "extra_forbidden":
        known = _known_fields(path, nested=len(error["loc"]) > 2)
        name = repr(shortened(field or str(error["loc"][-1])))
        return f"unknown field {name}" + (f"; known fields are {', '.join(known)}" if known else "")
    if not field:  # a rule about several fields, which says in its own words what is wrong
        return str(own)
    names = [part for part in field.split(".") if not part.isdecimal()]
    expected = EXPECTED.get(names[-1])
    inside = field.rpartition(".")[2].isdecimal()  # a member of a list: what is expected is said of the whole list
    if expected is None:
        return f"{field}: {own[:1].lower()}{own[1:]}"
    if error["type"] == "missing":
        return f"{field} is missing; expected {expected}"
    said = "cannot be used" if (shown := _shown(error.get("input"))) is None else f"is {shown}"
    return f"{field} {said}; expected {f'{names[-1]} to be ' if inside else ''}{expected}"


def _known_fields(path: str, nested: bool) -> list[str]:
    """Return the names of the fields that a request to this path can have."""
    kinds: dict[str, type[BaseModel]] = {
        "/v1/recommend": RecommendRequest,
        "/v1/recommend:batch": RecommendRequest if nested else BatchRequest,
        "/v1/similar": SimilarRequest,
        "/admin/reload": ReloadRequest,
    }
    return [*kinds[path].model_fields] if path in kinds else []


def _shown(value: Any) -> str | None:
    """Return a value in words that every answer can carry; None if it is too large."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int):
        return str(value) if abs(value) < 1 << 128 else None  # Python refuses to write out enormous numbers
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, str):
        return shortened(repr(value[:200]))
    if isinstance(value, list):
        return f"a list of {len(value):,}"
    return "an object" if isinstance(value, dict) else None


_SEND_JSON = "the body should be a JSON object, sent with the header Content-Type: application/json"


def _field(place: Sequence[Any]) -> str:
    """Return the name of a field, such as ``requests.0.n``. The branches of a union, such as ``int``, are left out."""
    inside = [part for part in place[1:] if isinstance(part, int) or part.isidentifier()]
    return ".".join(str(part) for part in inside if part not in ("int", "str"))


async def _http_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    if error.status_code == 400:  # the body is not text, or nested absurdly deep
        return RequestError(400, "unreadable_body", f"the body cannot be read; {_SEND_JSON}").as_response()
    code = HTTPStatus(error.status_code).phrase.lower().replace(" ", "_")
    message = f"{request.method} {request.url.path}: {error.detail}. The page /docs lists all requests"
    response = RequestError(error.status_code, code, message).as_response()
    response.headers.update(error.headers or {})
    return response


async def _failure(request: Request, error: Exception) -> JSONResponse:
    """A defect or a full disk: the log has the details, the client gets none of them."""
    if isinstance(error, IcpeError):
        _LOG.error("%s %s: %s", request.method, request.url.path, error)
    return RequestError(500, "internal_error", "the service failed; its log has the details").as_response()
