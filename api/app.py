"""The application: routes, and around them the layers that every request passes."""

from __future__ import annotations

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from api.auth import Authenticator
from api.errors import error_response
from api.middleware.body_guard import BodyGuard
from api.middleware.envelope import Envelope
from api.middleware.gate import Gate
from api.routes import batches, files, health, jobs, models
from api.services import Services
from api.telemetry import Metrics


def create_app(services: Services) -> FastAPI:
    """The API over these services, which the caller keeps and closes."""
    app = FastAPI(title="Fairlane", openapi_url=None, redirect_slashes=False)
    app.state.services = services
    app.state.metrics = Metrics()
    for module in (files, batches, jobs, models, health):
        app.include_router(module.router)
    app.add_exception_handler(HTTPException, _answer)
    app.add_exception_handler(RequestValidationError, _answer)
    # The last one added is the outermost.
    app.add_middleware(Gate, authenticator=Authenticator(services.engine))
    app.add_middleware(BodyGuard, max_file_bytes=services.max_file_bytes)
    app.add_middleware(Envelope, metrics=app.state.metrics)
    return app


async def _answer(request: Request, error: Exception) -> Response:
    """For the framework's own errors; the envelope answers all others."""
    return error_response(error, request.scope)
