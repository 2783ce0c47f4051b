"""Doorbells: "there is work, look". Rung after the commit, at most once per 50 ms and queue.

Nothing depends on one: every listener also polls the database. A Redis that cannot be reached
is therefore logged and forgotten.
"""

from __future__ import annotations

import asyncio

import structlog
from celery import Celery
from kombu.exceptions import OperationalError
from redis.exceptions import RedisError

from db.redis.broker import MAINTENANCE_QUEUE, worker_queue

RING_TASK = "fairlane.ring"
INGEST_TASK = "fairlane.ingest"
FINALISE_TASK = "fairlane.finalise"
_GAP_SECONDS = 0.05
_EXPIRES_SECONDS = 30  # an old doorbell says nothing that a poll has not seen

log = structlog.get_logger()


class Doorbell:
    """Rings the workers and the maintenance worker through Celery."""

    def __init__(self, app: Celery) -> None:
        self._app = app
        self._rung: dict[tuple[str, str], float] = {}
        self._waiting: set[tuple[str, str]] = set()

    async def ring_workers(self, deployment: str) -> None:
        """Some lane of this deployment has work."""
        await self._send(RING_TASK, worker_queue(deployment))

    async def ring_ingest(self) -> None:
        """A batch waits for validation."""
        await self._send(INGEST_TASK, MAINTENANCE_QUEUE)

    async def ring_finalise(self) -> None:
        """A batch has no live job left."""
        await self._send(FINALISE_TASK, MAINTENANCE_QUEUE)

    async def _send(self, task: str, queue: str) -> None:
        bell = (task, queue)
        if bell in self._waiting:
            return  # a ring that is about to go says the same
        clock = asyncio.get_running_loop().time
        self._waiting.add(bell)
        try:
            await asyncio.sleep(self._rung.get(bell, 0.0) + _GAP_SECONDS - clock())
        finally:
            self._waiting.discard(bell)
        self._rung[bell] = clock()
        try:
            await asyncio.to_thread(
                self._app.send_task, task, queue=queue, expires=_EXPIRES_SECONDS, retry=False
            )
        except (OperationalError, RedisError, OSError) as error:
            log.warning("doorbell.lost", queue=queue, error=type(error).__name__)
