"""The sweep: everything that keeps live jobs moving when nobody else will.

Most of the time there is nothing to do, and one statement tells. Each step is a short transaction
of its own over one bounded chunk; the order lets a job that a step frees be seen by the next one.
"""

from __future__ import annotations

import structlog

from db import replicas, sweeps
from workers.maintenance.services import Parts

log = structlog.get_logger()


class Sweep:
    """Rescue, expire, cancel, age, wake, fold; in that order."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    async def run_once(self) -> bool:
        """True when a chunk was full, so that more is likely to wait."""
        policy = self._parts.policy
        moved = []
        async with self._parts.database.connect() as connection:
            async with connection.begin():
                due = await sweeps.due(connection, policy)
            if due.ingest:
                await self._parts.doorbell.ring_ingest()
            if due.finalise:
                await self._parts.doorbell.ring_finalise()
            if not due.sweep:
                return False
            async with connection.begin():
                lost = await replicas.mark_lost(connection)
            async with connection.begin():
                rescued = await replicas.rescue(connection, sweeps.CHUNK, policy)
            for step in (sweeps.bury, sweeps.expire_queued, sweeps.cancel_queued, sweeps.age_ranks):
                async with connection.begin():
                    moved.append(await step(connection, policy))
            for plain in (sweeps.stop_running, sweeps.wake_delayed, sweeps.fold_progress):
                async with connection.begin():
                    moved.append(await plain(connection))
        for boot_id in lost:
            log.warning("replica.lost", boot=str(boot_id))
        for model, jobs in rescued.items():
            log.warning("jobs.rescued", model=model, jobs=jobs)
            await self._parts.doorbell.ring_workers(model)
        return any(count >= sweeps.CHUNK for count in moved)
