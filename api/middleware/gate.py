"""The gate: nothing below /v1/ is reached without a valid key, so no route can forget to ask."""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from api.auth import Authenticator


class Gate:
    def __init__(self, app: ASGIApp, authenticator: Authenticator) -> None:
        self._app = app
        self._authenticator = authenticator

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"].startswith("/v1/"):
            principal = await self._authenticator.principal(Headers(scope=scope))
            scope["state"]["principal"] = principal
        await self._app(scope, receive, send)
