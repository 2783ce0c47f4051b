"""Learning from finished jobs, every few seconds: how long answers are and how fast lanes are served."""

from __future__ import annotations

from db import lengths
from workers.maintenance.services import Parts


class Learn:
    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    async def run_once(self) -> bool:
        """True when a chunk was full, so that more is likely to wait."""
        async with self._parts.database.begin() as connection:
            folded = await lengths.fold_lengths(connection, self._parts.policy)
        return folded == lengths.CHUNK
