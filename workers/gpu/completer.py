"""The completer: gathers reports for a moment and stores them together, under their fences."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar
from uuid import UUID

import structlog
from sqlalchemy.exc import DataError, IntegrityError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine

from db import reports
from db.objects import Objects, StoreUnreachable
from lanes.policy import Policy
from lanes.report import Finished, GivenBack, stopped
from workers.gpu.held import Held

GATHER_SECONDS = 0.05
LARGEST_FLUSH = 256
_RETRY_SECONDS = 0.5

log = structlog.get_logger()
Report = Finished | GivenBack
R = TypeVar("R", Finished, GivenBack)


class Completer:
    """Stores reports in batches; a report that was handed in is stored or its lease is lost.

    While the database is away it waits and tries again: reports are bounded by the seats.
    """

    def __init__(self, engine: AsyncEngine, objects: Objects, held: Held, policy: Policy) -> None:
        self._engine = engine
        self._objects = objects
        self._held = held
        self._policy = policy
        self._queue: asyncio.Queue[Report] = asyncio.Queue()

    def submit(self, report: Report) -> None:
        self._queue.put_nowait(report)

    async def run(self) -> None:
        """Store reports for ever; cancelled only when nothing is held any more."""
        while True:
            gathered = [await self._queue.get()]
            await asyncio.sleep(GATHER_SECONDS)
            while len(gathered) < LARGEST_FLUSH and not self._queue.empty():
                gathered.append(self._queue.get_nowait())
            await self._store(gathered)

    async def _store(self, gathered: Sequence[Report]) -> None:
        finished = [report for report in gathered if isinstance(report, Finished)]
        given_back = [report for report in gathered if isinstance(report, GivenBack)]
        if finished:
            ended = await self._insist(finished, self._finish)
            lost = sum(report.lease.job_id not in ended for report in finished)
            if lost:
                log.warning("outcomes.dropped", jobs=lost, reason="lease lost")
            for report in finished:
                self._held.drop(report.lease)
        if given_back:
            queued = await self._insist(given_back, self._give_back)
            for back in given_back:
                if back.lease.job_id in queued:
                    self._held.drop(back.lease)
                else:  # asked to stop meanwhile: answer that; where the lease is lost it is a no-op
                    self.submit(stopped(back.lease, back.tenant_id))

    async def _finish(self, finished: Sequence[Finished]) -> set[UUID]:
        return await reports.finish(self._engine, self._objects, finished, self._policy)

    async def _give_back(self, given_back: Sequence[GivenBack]) -> set[UUID]:
        return await reports.give_back(self._engine, given_back, self._policy)

    async def _insist(
        self, batch: Sequence[R], write: Callable[[Sequence[R]], Awaitable[set[UUID]]]
    ) -> set[UUID]:
        """Write until the database has answered; one report that it refuses does not stop the rest."""
        while True:
            try:
                return await write(batch)
            except (DataError, IntegrityError) as error:
                if len(batch) == 1:
                    # Dropped here, the lease is unknown to this worker and goes back within two beats.
                    log.error("report.refused", job=str(batch[0].lease.job_id), error=str(error.orig))
                    return set()
                written = [await self._insist([report], write) for report in batch]
                return set().union(*written)
            except (SQLAlchemyError, StoreUnreachable, OSError) as error:
                log.warning("reports.waiting", reports=len(batch), error=type(error).__name__)
                await asyncio.sleep(_RETRY_SECONDS)
