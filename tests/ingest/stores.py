"""Object stores that fail, or let something else happen, at a chosen write."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from db.objects import Objects

if TYPE_CHECKING:
    from obstore import AsyncWritableFile


class StoreDown(Exception):
    """The store does not answer."""


class InterruptedObjects(Objects):
    """Calls `interrupt` before the k-th write (counted from 1), or after it when `after`."""

    def __init__(
        self, folder: Path, at: int, interrupt: Callable[[], Awaitable[None]], *, after: bool = False
    ) -> None:
        super().__init__(folder.as_uri())
        self._at = at
        self._interrupt = interrupt
        self._after = after
        self.writes = 0

    async def put(self, key: str, data: bytes | bytearray) -> None:
        async with self._counted():
            await super().put(key, data)

    @asynccontextmanager
    async def writer(self, key: str) -> AsyncIterator[AsyncWritableFile]:
        async with self._counted(), super().writer(key) as handle:
            yield handle

    @asynccontextmanager
    async def _counted(self) -> AsyncIterator[None]:
        self.writes += 1
        due = self.writes == self._at
        if due and not self._after:
            await self._interrupt()
        yield
        if due and self._after:
            await self._interrupt()


async def go_down() -> None:
    raise StoreDown


class UnreadableObjects(Objects):
    """Gives the first bytes of an object and then fails."""

    async def stream(self, key: str) -> AsyncIterator[bytes]:
        async for chunk in super().stream(key):
            yield chunk[: len(chunk) // 2]
            raise StoreDown
