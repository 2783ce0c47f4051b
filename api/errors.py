"""Every error as a client sees it: one table from what went wrong to status, type, code, headers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus

from fastapi.exceptions import RequestValidationError
from obstore.exceptions import BaseError as StorageError
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.routing import Match
from starlette.types import Scope

from api import refusals
from api.validation import refusal_of

_BAD = "invalid_request_error"
_OURS = "server_error"
_SOON = {"Retry-After": "2"}
_AWAY = "A part of the service is out of reach. Try again shortly."
_FAILED = (
    "The server failed. Try again; if it happens again, give the operator the id in the header x-request-id."
)


@dataclass(frozen=True, slots=True)
class Shape:
    status: int
    type: str
    code: str
    headers: Mapping[str, str] = field(default_factory=dict)


_UNAVAILABLE = Shape(503, _OURS, "service_unavailable", _SOON)
INTERNAL = Shape(500, _OURS, "internal_error")

TABLE: dict[type[Exception], Shape] = {
    refusals.MissingKey: Shape(401, _BAD, "missing_api_key", {"WWW-Authenticate": "Bearer"}),
    refusals.InvalidKey: Shape(401, _BAD, "invalid_api_key", {"WWW-Authenticate": "Bearer"}),
    refusals.MissingParameter: Shape(400, _BAD, "missing_required_parameter"),
    refusals.UnknownParameter: Shape(400, _BAD, "unknown_parameter"),
    refusals.InvalidValue: Shape(400, _BAD, "invalid_value"),
    refusals.InvalidJson: Shape(400, _BAD, "invalid_json"),
    refusals.MalformedForm: Shape(400, _BAD, "malformed_form"),
    refusals.InvalidFileFormat: Shape(400, _BAD, "invalid_file_format"),
    refusals.FileTooLarge: Shape(400, _BAD, "file_too_large"),
    refusals.NotCancellable: Shape(400, _BAD, "batch_not_cancellable"),
    refusals.NotFound: Shape(404, _BAD, "not_found"),
    refusals.NoSuchModel: Shape(404, _BAD, "model_not_found"),
    refusals.NoSuchUrl: Shape(404, _BAD, "unknown_url"),
    refusals.WrongMethod: Shape(405, _BAD, "method_not_allowed"),
    refusals.BodyTooLarge: Shape(413, _BAD, "request_too_large"),
    refusals.EncodedBody: Shape(415, _BAD, "unsupported_content_encoding"),
    refusals.IdempotencyKeyReused: Shape(422, _BAD, "idempotency_key_reused"),
    refusals.NotReady: _UNAVAILABLE,
    # The database or the object store is away; both come back, and nothing was half done.
    OperationalError: _UNAVAILABLE,
    InterfaceError: _UNAVAILABLE,
    PoolTimeoutError: _UNAVAILABLE,
    StorageError: _UNAVAILABLE,
}


def error_response(error: Exception, scope: Scope) -> JSONResponse:
    """The answer to a request that ended with this error."""
    error = _in_our_words(error, scope)
    shape = shape_of(error)
    message, param = _FAILED, None
    if isinstance(error, refusals.Refusal):
        message, param = error.message, error.param
    elif shape.status == HTTPStatus.SERVICE_UNAVAILABLE:
        message = _AWAY
    headers = dict(shape.headers)
    if isinstance(error, refusals.WrongMethod):
        headers["Allow"] = error.allowed
    body = {"message": message, "type": shape.type, "param": param, "code": shape.code}
    return JSONResponse({"error": body}, status_code=shape.status, headers=headers)


def shape_of(error: Exception) -> Shape:
    """The row of the table for an error; what is not in it is a fault of ours."""
    if isinstance(error, DBAPIError) and error.connection_invalidated:
        return _UNAVAILABLE
    found = (TABLE[kind] for kind in type(error).__mro__ if kind in TABLE)
    return next(found, INTERNAL)


def _in_our_words(error: Exception, scope: Scope) -> Exception:
    """The framework's own errors in our words; any other as it is."""
    if isinstance(error, RequestValidationError):
        return refusal_of(error)
    if not isinstance(error, HTTPException):
        return error
    carried: object = error.detail  # the body guard's words
    if isinstance(carried, refusals.Refusal):
        return carried
    if error.status_code == HTTPStatus.NOT_FOUND:
        return refusals.NoSuchUrl(scope["method"], scope["path"])
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        return refusals.WrongMethod(scope["method"], _allowed(scope))
    if error.status_code == HTTPStatus.BAD_REQUEST:
        return refusals.InvalidJson()
    return error


def _allowed(scope: Scope) -> str:
    """The methods of all routes with this path; the framework names those of the first only."""
    routes = (route for route in scope["app"].routes if route.matches(scope)[0] is not Match.NONE)
    return ", ".join(sorted({method for route in routes for method in route.methods}))
