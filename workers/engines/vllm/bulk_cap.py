"""Lanes on vLLM's plain scheduler: bulk beyond a cap waits in this process, P0 passes (`lanes.aimd`)."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Literal

from lanes.aimd import BulkCap, CapKnobs
from lanes.lane import Lane
from lanes.lane_stats import LaneCounters, LaneStats
from lanes.step_values import StepKnobs
from workers.engines.port import EngineDead


class BulkGate:
    """The cap at work, on one event loop. Of the knobs it keeps the version only."""

    kind: Literal["cap"] = "cap"

    def __init__(self, seats: int, knobs: StepKnobs, cap_knobs: CapKnobs) -> None:
        self._seats = seats
        self._cap_knobs = cap_knobs
        self._cap = BulkCap.of(seats)
        self._version = knobs.version
        self._inside = [0] * len(Lane)
        self._waiting: deque[tuple[asyncio.Future[None], Lane]] = deque()

    def configure(self, config: Any) -> None:
        """Nothing: the engine stays as it is."""

    def watch(self, client: Any) -> None:
        """Learn from now on when a P0 request of this engine client gets its first token."""
        _FirstTokens(client.output_processor, self._first_token)

    @asynccontextmanager
    async def inside(self, lane: Lane) -> AsyncIterator[None]:
        """Hold a place in the engine; bulk waits for one, first come first served."""
        if lane != Lane.INTERACTIVE and (self._waiting or not self._has_room()):
            await self._wait(lane)
        else:
            self._inside[lane] += 1
        try:
            yield
        finally:
            self._inside[lane] -= 1
            if lane != Lane.INTERACTIVE:
                self._cap = self._cap.after_bulk(time.monotonic(), self._cap_knobs)
            self._let_in()

    def set_knobs(self, knobs: StepKnobs) -> None:
        self._version = knobs.version

    def stats(self) -> LaneStats:
        """What this side knows: who is inside and who waits here."""
        waiting = Counter(lane for place, lane in self._waiting if not place.done())
        lanes = tuple(LaneCounters(running=self._inside[lane], waiting=waiting[lane]) for lane in Lane)
        return LaneStats(knobs_version=self._version, seats=self._seats, lanes=lanes)

    def close(self) -> None:
        """End those who wait."""
        for place, _ in self._waiting:
            if not place.done():
                place.set_exception(EngineDead("the vLLM engine was closed"))

    async def _wait(self, lane: Lane) -> None:
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((place, lane))
        try:
            await place
        except asyncio.CancelledError:
            if not place.cancelled():  # the place came just before the cancellation
                self._inside[lane] -= 1
                self._let_in()
            raise

    def _has_room(self) -> bool:
        return sum(self._inside) - self._inside[Lane.INTERACTIVE] < int(self._cap.limit)

    def _let_in(self) -> None:
        while self._waiting and self._has_room():
            place, lane = self._waiting.popleft()
            if not place.done():
                self._inside[lane] += 1
                place.set_result(None)

    def _first_token(self, ttft_ms: float) -> None:
        self._cap = self._cap.after_ttft(ttft_ms, time.monotonic(), self._cap_knobs)
        self._let_in()


class _FirstTokens:
    """Listens at vLLM's output processor: else an answer that is not streamed hides its first token."""

    def __init__(self, processor: Any, heard: Callable[[float], None]) -> None:
        self._processor = processor
        self._heard = heard
        self._began: dict[str, float] = {}
        self._add, self._process = processor.add_request, processor.process_outputs
        processor.add_request, processor.process_outputs = self.add_request, self.process_outputs

    def add_request(self, request: Any, *args: Any, **kwargs: Any) -> Any:
        if request.priority == Lane.INTERACTIVE:
            # Those that were aborted before their first token are forgotten here.
            self._began = {
                key: at for key, at in self._began.items() if key in self._processor.request_states
            }
            self._began[request.request_id] = time.monotonic()
        return self._add(request, *args, **kwargs)

    def process_outputs(self, outputs: Any, *args: Any, **kwargs: Any) -> Any:
        if self._began:
            for output in outputs:
                began = self._began.pop(output.request_id, None)
                if began is not None:
                    self._heard(1e3 * (time.monotonic() - began))
        return self._process(outputs, *args, **kwargs)
