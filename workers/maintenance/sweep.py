"""The sweep: everything that keeps live jobs moving when nobody else will.

Each step is a short transaction of its own over one bounded chunk; the order lets a job that
a step frees be seen by the next one.
"""

from __future__ import annotations

import structlog

from db import replicas, sweeps
from workers.maintenance.services import Parts

log = structlog.get_logger()


class Sweep:
    """Rescue, expire, cancel, wake, fold; in that order."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    async def run_once(self) -> bool:
        """True when a chunk was full, so that more is likely to wait."""
        policy = self._parts.policy
        async with self._parts.database.begin() as connection:
            for boot_id in await replicas.mark_lost(connection):
                log.warning("replica.lost", boot=str(boot_id))
        async with self._parts.database.begin() as connection:
            rescued = await replicas.rescue(connection, sweeps.CHUNK, policy)
        for model, jobs in rescued.items():
            log.warning("jobs.rescued", model=model, jobs=jobs)
            await self._parts.doorbell.ring_workers(model)
        moved = []
        for step in (sweeps.bury, sweeps.expire_queued, sweeps.cancel_queued):
            async with self._parts.database.begin() as connection:
                moved.append(await step(connection, policy))
        for plain in (sweeps.stop_running, sweeps.wake_delayed, sweeps.fold_progress):
            async with self._parts.database.begin() as connection:
                moved.append(await plain(connection))
        return any(count >= sweeps.CHUNK for count in moved)
