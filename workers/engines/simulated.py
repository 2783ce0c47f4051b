"""The simulated engine: seats and time as a real engine has them, no model, every answer labelled."""

from __future__ import annotations

import asyncio
import heapq
from dataclasses import dataclass, field

from workers.engines.port import EngineDead, EngineRequest, Reply
from workers.engines.simulated_answers import BadRequestError, draft, last_message, refusal, reply
from workers.engines.simulated_latency import LatencyModel


@dataclass(frozen=True, slots=True)
class SimulatedSettings:
    """`echo` makes each answer the last user message (or the prompt) itself, for tests that match the two.

    `drill` rehearses the death of an engine: it dies, with all that it holds, in the step in which a
    request with `DEATH_MARK` in its last user message gets a seat. Without it the mark means nothing.
    """

    served_name: str
    seats: int = 128
    context_tokens: int = 8192
    latency: LatencyModel = field(default_factory=LatencyModel)
    echo: bool = False
    drill: bool = False


DEATH_MARK = "[drill: engine death]"


@dataclass(order=True, slots=True)
class _Sequence:
    """One request inside the engine. It is ordered as vLLM's priority policy orders: lane, then arrival."""

    lane: int
    arrival: int
    prompt_tokens: int = field(compare=False)
    tokens_left: int = field(compare=False)
    done: asyncio.Future[None] = field(compare=False)
    deadly: bool = field(compare=False)


class SimulatedEngine:
    """Runs steps on the event loop for as long as there is a request; see the port for its rules."""

    def __init__(self, settings: SimulatedSettings) -> None:
        self._settings = settings
        self._waiting: list[_Sequence] = []
        self._running: list[_Sequence] = []
        self._arrivals = 0
        self._open = False
        self._steps: asyncio.Task[None] | None = None

    @property
    def seats(self) -> int:
        return self._settings.seats

    @property
    def context_tokens(self) -> int:
        return self._settings.context_tokens

    async def start(self) -> None:
        """There is nothing to load."""
        self._open = True

    async def run(self, request: EngineRequest) -> Reply:
        """Answer one request once its tokens have taken their time; see the port."""
        await self.check()
        try:
            answer = draft(request, self.context_tokens, self._settings.echo)
        except BadRequestError as error:
            return refusal(error)
        self._arrivals += 1
        done = asyncio.get_running_loop().create_future()
        sequence = _Sequence(
            int(request.lane),
            self._arrivals,
            answer.input_tokens,
            answer.output_tokens,
            done,
            self._settings.drill and DEATH_MARK in last_message(request),
        )
        heapq.heappush(self._waiting, sequence)
        if self._steps is None or self._steps.done():
            self._steps = asyncio.create_task(self._run_steps())
        await done
        return reply(request, answer, self._settings.served_name)

    async def check(self) -> None:
        """Raise EngineDead when the engine is not running."""
        if not self._open:
            raise EngineDead("the simulated engine is not running")

    async def close(self) -> None:
        """End what is in flight with EngineDead and stop."""
        self._open = False
        if self._steps is not None:
            self._steps.cancel()
            await asyncio.wait({self._steps})
        self._end_all("the simulated engine was closed")

    def _end_all(self, why: str) -> None:
        for sequence in (*self._running, *self._waiting):
            if not sequence.done.done():
                sequence.done.set_exception(EngineDead(why))
        self._running, self._waiting = [], []

    async def _run_steps(self) -> None:
        while self._waiting or self._running:
            prefill_tokens = self._admit()
            if any(sequence.deadly for sequence in self._running):
                self._open = False
                self._end_all("the simulated engine died in a drill")
                return
            await asyncio.sleep(self._settings.latency.step_seconds(prefill_tokens, len(self._running)))
            self._running = [sequence for sequence in self._running if _advance(sequence)]

    def _admit(self) -> int:
        """Fill free seats from those who wait; returns the prompt tokens that come with them.

        A request whose caller was cancelled has its future cancelled, and leaves its place at once.
        """
        self._running = [sequence for sequence in self._running if not sequence.done.done()]
        prefill_tokens = 0
        while self._waiting and len(self._running) < self.seats:
            sequence = heapq.heappop(self._waiting)
            if not sequence.done.done():
                self._running.append(sequence)
                prefill_tokens += sequence.prompt_tokens
        return prefill_tokens


def _advance(sequence: _Sequence) -> bool:
    """One token more; False when the request has ended and its seat is free."""
    sequence.tokens_left -= 1
    if sequence.tokens_left <= 0 and not sequence.done.done():
        sequence.done.set_result(None)
    return not sequence.done.done()
