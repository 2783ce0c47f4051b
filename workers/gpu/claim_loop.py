"""The resident claim loop of one lane: keeps the engine full."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from uuid import UUID

import structlog
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine

from db.claims import claim
from lanes.lane import Lane
from lanes.policy import Policy
from workers.gpu.slices import SliceRunner

log = structlog.get_logger()


class ClaimLoop:
    """Claims whenever seats are free and there may be work.

    It holds half as many jobs more as the engine has seats: requests of one length end together,
    and each seat that comes free is taken in the same engine step, not a round trip later (with
    an eighth more, p2_throughput lost 5%). A doorbell, a freed seat or the poll
    interval wakes it; each alone is enough.
    """

    def __init__(
        self, engine: AsyncEngine, runner: SliceRunner, *, deployment: str, lane: Lane,
        seats: int, boot_id: Callable[[], UUID], policy: Policy,
    ) -> None:  # fmt: skip
        self._engine = engine
        self._runner = runner
        self._deployment = deployment
        self._lane = lane
        self._ahead = max(2, seats // 2)
        self._capacity = seats + self._ahead
        self._boot_id = boot_id
        self._policy = policy
        self.bell = asyncio.Event()

    async def run(self) -> None:
        """Claim for ever; ends by cancellation, between two claims."""
        while True:
            try:
                found = await self._fill()
            except (SQLAlchemyError, OSError) as error:
                log.warning("claim.waiting", lane=self._lane.label, error=type(error).__name__)
                found = 0
            await self._rest(found)

    async def _fill(self) -> int:
        """One claim, shielded: a claim that committed is always started."""
        free = self._capacity - self._runner.in_engine
        if free < self._ahead / 2:
            return 0
        return await asyncio.shield(self._claim(free))

    async def _claim(self, free: int) -> int:
        jobs = await claim(
            self._engine,
            model=self._deployment,
            lane=self._lane,
            boot_id=self._boot_id(),
            free_seats=free,
            policy=self._policy,
        )
        if jobs:
            await self._runner.start(jobs)
            log.debug("slice.claimed", lane=self._lane.label, jobs=len(jobs))
        return len(jobs)

    async def _rest(self, found: int) -> None:
        """Wait for a reason to look again."""
        full = self._capacity - self._runner.in_engine < self._ahead / 2
        if found and not full:
            return  # the slice was capped; there may be more
        wake = self._runner.seat_freed if full else self.bell
        wake.clear()
        timeout = self._policy.poll_seconds * random.uniform(0.5, 1.5)  # noqa: S311  # jitter keeps no secret
        try:
            async with asyncio.timeout(timeout):
                await wake.wait()
        except TimeoutError:
            return
