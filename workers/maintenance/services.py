"""What every maintenance service works with, and the rule that one runs at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from sqlalchemy.ext.asyncio import AsyncEngine

from db.objects import Objects
from db.redis.doorbell import Doorbell
from lanes.policy import Policy


@dataclass(frozen=True, slots=True)
class Parts:
    """The database (as fairlane_engine), the objects, the doorbell and the policy in force."""

    database: AsyncEngine
    objects: Objects
    doorbell: Doorbell
    policy: Policy


@dataclass(slots=True)
class Service:
    """A unit of maintenance. `run_once` does a bounded amount and says whether there may be more."""

    name: str
    run_once: Callable[[], Awaitable[bool]]
    _busy: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def run(self) -> None:
        """Run until nothing is left; skip when the same service runs already."""
        if self._busy.locked():
            return
        async with self._busy:
            while await self.run_once():
                pass
