"""The body guard: bodies end at a limit, by their declared length and by what really arrives."""

from __future__ import annotations

from fastapi import HTTPException
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.refusals import BodyTooLarge, EncodedBody, FileTooLarge

MAX_JSON_BYTES = 1 << 20
_FORM_BYTES = 1 << 20  # what a form may add around its file
_UPLOAD = ("POST", "/v1/files")


class BodyGuard:
    def __init__(self, app: ASGIApp, max_file_bytes: int) -> None:
        self._app = app
        self._max_file_bytes = max_file_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        # A compressed body could unfold to any size.
        if headers.get("content-encoding", "identity").lower() != "identity":
            raise EncodedBody
        upload = (scope["method"], scope["path"]) == _UPLOAD
        limit = self._max_file_bytes + _FORM_BYTES if upload else MAX_JSON_BYTES
        refusal = FileTooLarge(self._max_file_bytes) if upload else BodyTooLarge(limit)
        declared = headers.get("content-length", "0")
        if declared.isdigit() and int(declared) > limit:
            raise refusal
        arrived = 0

        async def counted() -> Message:
            nonlocal arrived
            message = await receive()
            if message["type"] == "http.request":
                arrived += len(message.get("body", b""))
                if arrived > limit:
                    # FastAPI lets no other error out while it reads a body.
                    raise HTTPException(413, detail=refusal)
            return message

        await self._app(scope, counted, send)
