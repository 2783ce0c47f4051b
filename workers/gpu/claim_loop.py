"""The resident claim loop of a worker: keeps its engine full, from all its lanes."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Sequence
from typing import Any
from uuid import UUID

import structlog
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine

from db.claims import claim, claim_suspects, suspects_wait_seconds
from lanes.account import cost
from lanes.lane import Lane
from lanes.policy import Policy
from lanes.shares import shares
from workers.gpu.demand import Demand
from workers.gpu.slices import SliceRunner

log = structlog.get_logger()


class ClaimLoop:
    """Claims whenever seats are free and there may be work.

    It holds half as many jobs more as the engine has seats: requests of one length end together,
    and each seat that comes free is taken in the same engine step, not a round trip later (with
    an eighth more, p2_throughput lost 5%). A doorbell, a freed seat or the poll
    interval wakes it; each alone is enough.

    Suspects come before anything else and run alone: an empty engine asks for a group of them, and
    a busy one is let run empty for a group that has waited too long.
    """

    def __init__(
        self, engine: AsyncEngine, runner: SliceRunner, *, deployment: str, lanes: Sequence[Lane],
        seats: int, boot_id: Callable[[], UUID], policy: Policy,
    ) -> None:  # fmt: skip
        self._engine = engine
        self._runner = runner
        self._deployment = deployment
        self._ahead = max(2, seats // 2)
        self._capacity = seats + self._ahead
        self._boot_id = boot_id
        self._policy = policy
        self._clock = asyncio.get_running_loop().time
        self._demand = Demand(lanes, self._clock(), policy)
        self._suspects_asked_at = self._clock()
        self._emptying = False
        self.bell = asyncio.Event()

    async def run(self) -> None:
        """Claim for ever; ends by cancellation, between two claims."""
        while True:
            self._runner.seat_freed.clear()
            if self.bell.is_set():
                self.bell.clear()
                self._demand.look_again()
            try:
                again = await self._undisturbed(self._fill())
            except (SQLAlchemyError, OSError) as error:
                log.warning("claim.waiting", error=type(error).__name__)
                again = False
            if not again:
                await self._rest()

    async def _undisturbed(self, filling: Coroutine[Any, Any, bool]) -> bool:
        """A claim that committed is always started, also when this loop is cancelled meanwhile."""
        task = asyncio.create_task(filling, name="fill")
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            await asyncio.wait({task})
            raise

    @property
    def _free(self) -> int:
        return self._capacity - self._runner.in_engine

    @property
    def _full(self) -> bool:
        """Whether only a freed seat is a reason to look."""
        if self._runner.in_engine and (self._emptying or self._runner.runs_suspects):
            return True
        return self._free < self._ahead / 2

    async def _fill(self) -> bool:
        """Claims for the free seats; whether there is a reason to claim again at once."""
        self._demand.settle(self._runner.take_settlements())
        if self._runner.in_engine == 0:
            self._emptying = False
            if await self._claim_suspects():
                return False
        elif not self._runner.runs_suspects:
            await self._look_for_suspects()
        if self._full:
            return False
        for share in shares(self._free, self._demand.lanes(self._clock()), self._policy):
            await self._claim(share.lane, min(share.seats, self._policy.slice_jobs))
        # A slice is capped, and a lane that was found empty leaves its seats to the others.
        return self._demand.may_be_work and not self._full

    async def _claim_suspects(self) -> bool:
        """Start a group of suspects, if one waits, in an engine that is empty and stays their own."""
        jobs = await claim_suspects(
            self._engine, model=self._deployment, boot_id=self._boot_id(), policy=self._policy
        )
        if jobs:
            log.warning("suspects.claimed", jobs=len(jobs), group=str(jobs[0].suspects))
            await self._runner.start(jobs)
        return bool(jobs)

    async def _look_for_suspects(self) -> None:
        """Every poll interval: let the engine run empty when a group has waited too long for one."""
        now = self._clock()
        if now - self._suspects_asked_at < self._policy.poll_seconds:
            return
        self._suspects_asked_at = now
        waited = await suspects_wait_seconds(self._engine, self._deployment)
        self._emptying = waited is not None and waited > self._policy.suspect_patience_seconds

    async def _claim(self, lane: Lane, seats: int) -> None:
        jobs = await claim(
            self._engine, model=self._deployment, lane=lane, boot_id=self._boot_id(), free_seats=seats,
            policy=self._policy,
        )  # fmt: skip
        if jobs:
            costs = [cost(job.input_tokens, job.output_tokens, self._policy) for job in jobs]
            self._demand.charge(lane, costs, self._clock())
            await self._runner.start(jobs)
            log.debug("slice.claimed", lane=lane.label, jobs=len(jobs))
        if len(jobs) < seats:
            self._demand.emptied(lane, self._clock())

    async def _rest(self) -> None:
        """Wait for a reason to look again: a freed seat where nothing else is one, or a doorbell."""
        wake = self._runner.seat_freed if self._full else self.bell
        timeout = self._policy.poll_seconds * random.uniform(0.5, 1.5)  # noqa: S311  # jitter keeps no secret
        try:
            async with asyncio.timeout(timeout):
                await wake.wait()
        except TimeoutError:
            self._demand.look_again()
