"""Who sends a request: its bearer key, remembered for a few seconds."""

from __future__ import annotations

import hashlib
import time
from collections import OrderedDict
from typing import Annotated

from fastapi import Depends, Request
from sqlalchemy.ext.asyncio import AsyncEngine
from starlette.datastructures import Headers

from api.refusals import InvalidKey, MissingKey
from db.keys import Principal, authenticate

# A revoked key works at most this much longer, and a key that is used often costs one look-up
# in this time.
REMEMBERED_SECONDS = 3.0
_REMEMBERED_KEYS = 10_000


class Authenticator:
    """Tells the principal behind a request's headers."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine
        self._known: OrderedDict[bytes, tuple[Principal, float]] = OrderedDict()

    async def principal(self, headers: Headers) -> Principal:
        """The principal.

        Raises:
            MissingKey: no bearer key was sent.
            InvalidKey: the key is nobody's.
        """
        scheme, _, key = headers.get("authorization", "").partition(" ")
        key = key.strip()
        if scheme.lower() != "bearer" or not key:
            raise MissingKey
        # By digest, so that no key lies in memory longer than its request.
        digest = hashlib.sha256(key.encode()).digest()
        known = self._known.get(digest)
        now = time.monotonic()
        if known is not None and now < known[1]:
            return known[0]
        principal = await authenticate(self._engine, key)
        if principal is None:
            self._known.pop(digest, None)
            raise InvalidKey
        self._known[digest] = (principal, now + REMEMBERED_SECONDS)
        self._known.move_to_end(digest)
        if len(self._known) > _REMEMBERED_KEYS:
            self._known.popitem(last=False)
        return principal


def _principal(request: Request) -> Principal:
    """The principal that the gate found; a route outside the gate has none and fails here."""
    principal: Principal = request.state.principal
    return principal


Caller = Annotated[Principal, Depends(_principal)]
