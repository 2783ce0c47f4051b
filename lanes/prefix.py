"""Which requests begin alike: an engine reads a common beginning once if they run close together."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

from lanes.policy import Policy

# What a prompt is made of, in the order in which templates put it.
_FIELDS = ("tools", "instructions", "messages", "prompt", "input")


def prefix_group(body: Mapping[str, Any], policy: Policy) -> int:
    """A signed number of 64 bits that two prompts share when their first `prefix_bytes` are equal."""
    opening = bytearray()
    for part in _parts([body.get(name) for name in _FIELDS]):
        opening += part[: policy.prefix_bytes].encode()
        if len(opening) >= policy.prefix_bytes:
            break
    digest = hashlib.blake2b(opening[: policy.prefix_bytes], digest_size=8).digest()
    return int.from_bytes(digest, signed=True)


def _parts(value: Any) -> Iterator[str]:
    """The strings and the token ids of a JSON value, in the order in which they stand."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from _parts(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from _parts(item)
    elif value is not None:
        yield f"{value} "
