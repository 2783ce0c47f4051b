"""The engine port: all that the rest of a worker knows of an inference engine.

Three rules bind every implementation. An answer is data: a request that the engine refuses
comes back as a `Reply` with its HTTP status and an error body, never as an exception.
Cancelling the task that awaits `run` stops the generation inside the engine. Only the death
of the engine itself raises, as `EngineDead`, and then for every request in flight.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from lanes.lane import Lane
from lanes.usage import Usage


class EngineDead(Exception):
    """The engine process ended; nothing it held can still be answered."""


@dataclass(frozen=True, slots=True)
class EngineRequest:
    """One request. `request_id` is made here, never by a client, and is unique per attempt."""

    request_id: str
    endpoint: str  # "/v1/chat/completions", "/v1/completions", "/v1/responses"
    body: Mapping[str, Any]
    lane: Lane


@dataclass(frozen=True, slots=True)
class Reply:
    """What an engine answered: an HTTP status, the JSON body as bytes, and the tokens spent."""

    status: int
    body: bytes
    usage: Usage


class Engine(Protocol):
    """An inference engine with a fixed number of seats (requests that it runs at once)."""

    @property
    def seats(self) -> int: ...

    @property
    def context_tokens(self) -> int: ...

    async def start(self) -> None:
        """Load and warm up; returns once requests can be answered."""

    async def run(self, request: EngineRequest) -> Reply:
        """Answer one request, without streaming.

        Raises:
            EngineDead: the engine is gone.
        """

    async def check(self) -> None:
        """Raise EngineDead when the engine is gone."""

    async def close(self) -> None:
        """Stop the engine and every process it started; safe to call twice."""
