"""The header Idempotency-Key: the client's name for one thing that it wants made once."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

from api.refusals import InvalidValue

HEADER = "Idempotency-Key"
LONGEST = 255
_QUOTED = re.compile(r'"((?:[ !#-\[\]-~]|\\["\\])*)"')  # RFC 8941's string
_BARE = re.compile(r"[!-~]+")
_ESCAPED = re.compile(r'\\(["\\])')
_REMEDY = (
    f"Send 1 to {LONGEST} printable ASCII characters, without spaces or in double quotes, such as a UUID."
)


def idempotency_key(sent: str | None) -> str | None:
    """The key in a header's value, quoted as the draft standard says or bare as most clients send it.

    Raises:
        InvalidValue: it is no key.
    """
    if sent is None:
        return None
    text = sent.strip()
    quoted = _QUOTED.fullmatch(text)
    if quoted is not None:
        key = _ESCAPED.sub(r"\1", quoted[1])
    elif not text.startswith('"') and _BARE.fullmatch(text):
        key = text
    else:
        raise InvalidValue(HEADER, _REMEDY)
    if not 1 <= len(key) <= LONGEST:
        raise InvalidValue(HEADER, _REMEDY)
    return key


def key_hash(key: str) -> bytes:
    """What is stored in place of the key: a key may say more than its client thinks."""
    return hashlib.sha256(key.encode()).digest()


def request_digest(request: Mapping[str, Any]) -> bytes:
    """The same for two requests that mean the same, however their JSON is spaced and ordered."""
    text = json.dumps(request, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).digest()
