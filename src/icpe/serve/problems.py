"""Errors of the service as JSON: a code for programs, and a sentence that says what to send instead."""

import logging
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from icpe.errors import IcpeError

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
    """Name the fields at fault. What the client sent is not repeated: it may hold what JSON cannot carry."""
    assert isinstance(error, RequestValidationError)
    texts: dict[str, list[str]] = {}
    for one in error.errors():
        if one["type"] == "json_invalid":
            reason = f"the body is not valid JSON: {one.get('ctx', {}).get('error', '')} at character {one['loc'][-1]}"
            return RequestError(422, "invalid_json", reason).as_response()
        if one["loc"] == ("body",) and one["type"] != "value_error":
            return RequestError(422, "invalid_request", _SEND_JSON).as_response()
        text = one["msg"].removeprefix("Value error, ").removeprefix("Input should be ")
        texts.setdefault(_field(one["loc"]), []).append(text)
    sentences = [f"{field}: {' or '.join(found)}" if field else " or ".join(found) for field, found in texts.items()]
    return RequestError(422, "invalid_request", "; ".join(sentences), [*filter(None, texts)]).as_response()


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
