"""Waiting for jobs to change: one task a process asks for all of them, and a waiter holds no connection."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from dataclasses import dataclass
from uuid import UUID

import structlog
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine

from db.connect import tenant_transaction
from db.job_states import job_states
from lanes.job import JobState

LOOK_SECONDS = 0.25

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, eq=False)
class _Waiter:
    tenant_id: UUID
    job_id: UUID
    seen: JobState
    told: asyncio.Future[JobState | None]


class Watch:
    """Tells whoever waits for a job that its state has changed, a quarter of a second later at most.

    States that a job leaves sooner than that are passed over.
    """

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine  # as the API role
        self._waiters: set[_Waiter] = set()
        self._looking: asyncio.Task[None] | None = None

    async def changed(
        self, tenant_id: UUID, job_id: UUID, seen: JobState, within_s: float
    ) -> JobState | None:
        """The first state other than the one seen; that one again when time is up; None: no such job."""
        waiter = _Waiter(tenant_id, job_id, seen, asyncio.get_running_loop().create_future())
        self._waiters.add(waiter)
        try:
            if self._looking is None:
                self._looking = asyncio.create_task(self._look())
            return await asyncio.wait_for(waiter.told, within_s)
        except TimeoutError:
            return seen
        finally:
            self._waiters.discard(waiter)

    async def _look(self) -> None:
        """Ask while somebody waits."""
        try:
            while self._waiters:
                try:
                    await self._ask()
                except (SQLAlchemyError, OSError) as error:
                    # The database comes back, or the waiters' time runs out.
                    log.warning("watch.failed", error=type(error).__name__)
                await asyncio.sleep(LOOK_SECONDS)
        finally:
            self._looking = None

    async def _ask(self) -> None:
        by_tenant: dict[UUID, list[_Waiter]] = defaultdict(list)
        for waiter in self._waiters:
            by_tenant[waiter.tenant_id].append(waiter)
        # Row-level security shows a transaction the rows of one tenant.
        for tenant_id, waiters in by_tenant.items():
            async with tenant_transaction(self._engine, tenant_id) as connection:
                states = await job_states(connection, tenant_id, {waiter.job_id for waiter in waiters})
            for waiter in waiters:
                now = states.get(waiter.job_id)
                if now is not waiter.seen and not waiter.told.done():
                    waiter.told.set_result(now)
