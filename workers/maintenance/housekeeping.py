"""Housekeeping, once a minute: partitions ahead, bytes of deleted files."""

from __future__ import annotations

from db import erase, sweeps
from workers.maintenance.services import Parts

_FILES_A_RUN = 200


class Housekeeping:
    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    async def run_once(self) -> bool:
        """True when more files wait to be erased."""
        async with self._parts.database.begin() as connection:
            await sweeps.make_partitions(connection)
        async with self._parts.database.begin() as connection:
            await erase.hide_expired(connection)
            doomed = await erase.erasable(connection, _FILES_A_RUN)
        if doomed:
            # Objects first: a crash in between erases them once more, and never forgets them.
            await self._parts.objects.delete([key for _, key in doomed])
            async with self._parts.database.begin() as connection:
                await erase.mark_erased(connection, [file_id for file_id, _ in doomed])
        return len(doomed) == _FILES_A_RUN
