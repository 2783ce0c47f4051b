"""The envelope: every exchange gets an id, a time, an answer, a log line and a count."""

from __future__ import annotations

import time
from http import HTTPStatus
from uuid import uuid4

import structlog
from starlette.datastructures import MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.errors import error_response, shape_of
from api.telemetry import Metrics, frames
from lanes.ids import Prefix, spell

CLIENT_GONE = 499  # in logs and metrics only: nobody is left to be answered

log = structlog.get_logger()


class Envelope:
    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        # Always an id of ours: two clients could send the same one.
        request_id = spell(Prefix.REQUEST, uuid4())
        scope.setdefault("state", {})
        structlog.contextvars.clear_contextvars()
        structlog.contextvars.bind_contextvars(request_id=request_id)
        exchange = _Exchange(scope, request_id, self._metrics)

        async def marked(message: Message) -> None:
            exchange.note(message)
            await send(message)

        try:
            await self._app(scope, receive, marked)
        except ClientDisconnect:
            exchange.status = CLIENT_GONE
        except Exception as error:  # noqa: BLE001 - every fault gets an answer here, and its place in the log
            status = shape_of(error).status
            if status == HTTPStatus.SERVICE_UNAVAILABLE:
                log.warning("request.unavailable", error=type(error).__name__)
            elif status >= HTTPStatus.INTERNAL_SERVER_ERROR:
                log.error("request.failed", error=type(error).__name__, frames=frames(error))
            # An answer that has begun cannot become an error. It stays incomplete, so the server closes
            # the connection and the client sees that something is missing.
            if not exchange.status:
                await error_response(error, scope)(scope, receive, marked)
        finally:
            exchange.record()


class _Exchange:
    """One request and what is known of its answer."""

    def __init__(self, scope: Scope, request_id: str, metrics: Metrics) -> None:
        self.status = 0  # not answered yet
        self._scope = scope
        self._request_id = request_id
        self._metrics = metrics
        self._started = time.perf_counter()
        self._seconds: float | None = None

    def note(self, message: Message) -> None:
        """See a part of the answer pass, and mark the first."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = MutableHeaders(scope=message)
            headers["x-request-id"] = self._request_id
            headers["openai-processing-ms"] = str(_milliseconds(self._passed()))
        elif not message.get("more_body", False):
            # What is done after the answer is not part of its time.
            self._seconds = self._passed()

    def record(self) -> None:
        """Log and count it; without an answer, the client had left or the process ends."""
        status = self.status or CLIENT_GONE
        seconds = self._passed() if self._seconds is None else self._seconds
        route = getattr(self._scope.get("route"), "path", "unmatched")
        principal = self._scope["state"].get("principal")
        self._metrics.count(route, self._scope["method"], status, seconds)
        log.info(
            "request",
            method=self._scope["method"],
            route=route,
            status=status,
            ms=_milliseconds(seconds),
            tenant_id=None if principal is None else str(principal.tenant_id),
        )

    def _passed(self) -> float:
        return time.perf_counter() - self._started


def _milliseconds(seconds: float) -> int:
    return round(seconds * 1000)
