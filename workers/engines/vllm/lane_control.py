"""How an engine's lanes are kept: by our scheduler inside vLLM, or by a cap in front of it."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Literal, Protocol

from lanes.lane import Lane
from lanes.lane_stats import LaneStats
from lanes.policy import Policy
from lanes.step_values import StepKnobs
from workers.engines.vllm.bulk_cap import BulkGate
from workers.engines.vllm.compatibility import refusals
from workers.engines.vllm.control_block import ControlBlock

LaneKind = Literal["subclass", "cap"]

_SCHEDULERS = "workers.engines.vllm.lane_scheduler"
_logger = logging.getLogger(__name__)


class LaneControl(Protocol):
    """The lanes of one engine."""

    @property
    def kind(self) -> LaneKind: ...

    def configure(self, config: Any) -> None:
        """Set what the engine must be started with, in its `VllmConfig`."""

    def watch(self, client: Any) -> None:
        """Take notice of the engine client, once it is there."""

    def inside(self, lane: Lane) -> AbstractAsyncContextManager[None]:
        """While a request is in the engine."""

    def set_knobs(self, knobs: StepKnobs) -> None:
        """In force from the next step that starts."""

    def stats(self) -> LaneStats:
        """The latest counters."""

    def close(self) -> None:
        """Let go; safe to call twice."""


class LanesInScheduler:
    """Our scheduler, and the memory that this process shares with it."""

    kind: LaneKind = "subclass"

    def __init__(self, knobs: StepKnobs) -> None:
        self._block = ControlBlock.create(knobs)

    def configure(self, config: Any) -> None:
        """Name the scheduler class and the memory."""
        scheduler = config.scheduler_config
        name = "AsyncLaneScheduler" if scheduler.async_scheduling else "LaneScheduler"
        scheduler.scheduler_cls = f"{_SCHEDULERS}.{name}"
        config.additional_config = self._block.name

    def watch(self, client: Any) -> None:
        """Nothing: the scheduler sees all."""

    @asynccontextmanager
    async def inside(self, lane: Lane) -> AsyncIterator[None]:  # noqa: ARG002 (all may enter)
        yield

    def set_knobs(self, knobs: StepKnobs) -> None:
        self._block.write_knobs(knobs)

    def stats(self) -> LaneStats:
        return self._block.stats()

    def close(self) -> None:
        self._block.close()


def lane_control(wanted: LaneKind, config: Any, policy: Policy) -> LaneControl:
    """The lanes of an engine with this `VllmConfig`: what is `wanted`, or the cap where that cannot be."""
    reasons = refusals(config) if wanted == "subclass" else []
    if wanted == "subclass" and not reasons:
        return LanesInScheduler(policy.step)
    for reason in reasons:
        _logger.warning("P0 and P2 are kept apart by a cap only. %s", reason)
    return BulkGate(config.scheduler_config.max_num_seqs, policy.step, policy.cap)
