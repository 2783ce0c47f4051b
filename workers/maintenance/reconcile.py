"""The reconciler, once a minute: no queued job stays unseen, and the planner knows the small tables."""

from __future__ import annotations

import structlog

from db import reconcile
from workers.maintenance.services import Parts

log = structlog.get_logger()


class Reconcile:
    """Finds nothing while all goes well: it is the net under the rules that keep accounts active."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    async def run_once(self) -> bool:
        """True when there may be more lost flows than were looked at."""
        async with self._parts.database.begin() as connection:
            await reconcile.refresh_statistics(connection)
        async with self._parts.database.begin() as connection:
            if await reconcile.refold(connection):
                log.warning("deltas.passed_over")
        async with self._parts.database.begin() as connection:
            lost = await reconcile.lost_flows(connection)
        found = 0
        for flow in lost:
            async with self._parts.database.begin() as connection:
                found += await reconcile.find_again(connection, flow)
        for model in sorted({flow.model for flow in lost}):
            await self._parts.doorbell.ring_workers(model)
        if found:
            log.warning("flows.lost", flows=found)
        return found == reconcile.CHUNK
