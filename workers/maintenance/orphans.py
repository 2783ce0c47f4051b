"""Orphans: objects whose writer died before the row that would have named them."""

from __future__ import annotations

import structlog

from db import erase
from workers.maintenance.services import Parts

PREFIXES = ("uploads", "segments", "errors", "results", "files")

log = structlog.get_logger()


class Orphans:
    """Looks at every object once a run; only those older than a day are judged."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    async def run_once(self) -> bool:
        """Always False: one run sees everything."""
        async with self._parts.database.begin() as connection:
            moment = await erase.a_day_ago(connection)
        for prefix in PREFIXES:
            async for keys in self._parts.objects.keys_before(prefix, moment):
                async with self._parts.database.begin() as connection:
                    orphans = await erase.unnamed(connection, keys)
                if orphans:
                    await self._parts.objects.delete(orphans)
                    log.info("objects.orphaned", prefix=prefix, objects=len(orphans))
        return False
