"""The real engine: vLLM's AsyncLLM, in processes of its own, behind vLLM's own OpenAI serving classes."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

from lanes.lane_stats import LaneStats
from lanes.policy import DEFAULT, Policy
from lanes.step_values import StepKnobs
from workers.engines.port import EngineDead, EngineRequest, Reply
from workers.engines.vllm.environment import vllm_environment
from workers.engines.vllm.lane_control import LaneKind
from workers.engines.vllm.processes import end, family, loading_engine_cores
from workers.engines.vllm.settings import VllmSettings

if TYPE_CHECKING:
    from workers.engines.vllm.serving import Serving


class VllmEngine:
    """One engine. It is used on the event loop that awaited `start`, and is started once."""

    def __init__(self, settings: VllmSettings, policy: Policy = DEFAULT) -> None:
        self._settings = settings
        self._policy = policy
        self._building: asyncio.Future[Serving] | None = None
        self._serving: Serving | None = None
        self._closed = False

    @property
    def seats(self) -> int:
        return self._settings.max_num_seqs

    @property
    def context_tokens(self) -> int:
        """Tokens of prompt and answer together; known once started, as vLLM may lower what was asked for."""
        return self._alive().context_tokens

    @property
    def lanes(self) -> LaneKind:
        """How P0 and bulk are kept apart: as the settings say, or by the cap where that cannot be."""
        return self._alive().lanes.kind

    def set_knobs(self, knobs: StepKnobs) -> None:
        """In force from the next step that starts; `lane_stats` then shows their version."""
        self._alive().lanes.set_knobs(knobs)

    def lane_stats(self) -> LaneStats:
        """The counters of each lane after the last step."""
        return self._alive().lanes.stats()

    async def start(self) -> None:
        """Load the model and warm up; half a minute for a small model on two cores.

        The event loop stays free meanwhile. Cancelling `start` leaves the load running: `close` ends it.

        Raises:
            EngineDead: the engine did not come up, or was closed meanwhile.
        """
        self._building = asyncio.ensure_future(asyncio.to_thread(self._build))
        try:
            serving = await asyncio.shield(self._building)
            await serving.open()
        except Exception as error:
            await self.close()
            raise EngineDead(f"vLLM did not start: {error}") from error
        self._serving = serving

    def _build(self) -> Serving:
        for name, value in vllm_environment(os.sched_getaffinity(0)).items():
            os.environ.setdefault(name, value)
        # Imported here and not above: vLLM reads its environment while it is imported.
        from workers.engines.vllm.serving import Serving  # noqa: PLC0415 (see above)

        if self._closed:
            raise EngineDead("the engine was closed while it started")
        return Serving(self._settings, self._policy)

    async def run(self, request: EngineRequest) -> Reply:
        """Answer one request; see the port.

        vLLM's serving classes turn a cancellation into an answer ("Client disconnected") after they
        have aborted the request, so whether this task was cancelled is asked of the task itself.
        """
        serving = self._alive()
        task = asyncio.current_task()
        assert task is not None
        cancels_before = task.cancelling()
        reply = await serving.answer(request)
        if task.cancelling() > cancels_before:
            raise asyncio.CancelledError
        return reply

    async def check(self) -> None:
        """Raise EngineDead when the engine is gone."""
        if self._alive().dead:
            raise EngineDead("the vLLM engine process ended")

    async def close(self) -> None:
        """End what is in flight with EngineDead, then stop EngineCore and its children, within seconds."""
        self._closed = True
        self._serving = None
        building = self._building
        if building is None:
            return
        while not building.done():
            await asyncio.to_thread(end, family(loading_engine_cores()))
            await asyncio.wait({building}, timeout=0.5)
        self._building = None
        if building.exception() is None:
            await building.result().close()

    def _alive(self) -> Serving:
        if self._serving is None:
            raise EngineDead("the vLLM engine is not running")
        return self._serving
