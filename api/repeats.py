"""Repeats: the name by which a request finds what an earlier try of it has made."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from starlette.datastructures import Headers

from api.idempotency import HEADER, idempotency_key, key_hash, request_digest
from db.keys import Principal
from db.once import Name

REPLAYED = {"Idempotent-Replayed": "true"}
_TRY = "x-stainless-retry-count"  # the official clients count their tries in it, from 0
_KEY_LASTS = timedelta(hours=24)
_REPEAT_LASTS = timedelta(minutes=10)


def name_of(headers: Headers, path: str, caller: Principal, asked: Mapping[str, Any]) -> Name:
    """The client's own key, or else one derived from who asks for what.

    A first try without a key makes its thing anew: two equal requests may both be meant.

    Raises:
        InvalidValue: the header is no key.
    """
    digest = request_digest(asked)
    key = idempotency_key(headers.get(HEADER))
    if key is not None:
        return Name(path, key_hash(key), digest, _KEY_LASTS)
    derived = hashlib.sha256(f"{caller.key_id} {path} {digest.hex()}".encode()).digest()
    tried = headers.get(_TRY, "0")
    first = not tried.isascii() or not tried.isdigit() or int(tried[:9]) == 0
    return Name(f"repeat:{path}", derived, digest, _REPEAT_LASTS, anew=first)
