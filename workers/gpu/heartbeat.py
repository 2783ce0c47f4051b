"""The heartbeat: its own thread, event loop and connection, so that no work can delay it."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

import structlog
from sqlalchemy.exc import SQLAlchemyError

from db.connect import Role, connect
from db.replicas import ReplicaState, beat
from lanes.job import Lease
from lanes.policy import Policy

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Standing:
    """What the worker says of itself at one beat."""

    boot_id: UUID
    state: ReplicaState
    seats: int
    leases: frozenset[Lease]


class Watched(Protocol):
    """The worker as the heartbeat sees it; every method may be called from another thread."""

    def standing(self) -> Standing: ...

    def stop_jobs(self, leases: frozenset[Lease]) -> None:
        """These were cancelled or expired."""

    def lose_jobs(self, leases: frozenset[Lease]) -> None:
        """These are another worker's now."""

    def disown(self, leases: frozenset[Lease]) -> None:
        """The database says that we hold these, and we do not know them: give them back."""

    def lose_everything(self, boot_id: UUID) -> None:
        """The lease of this boot is gone."""


class HeartbeatThread:
    """Beats until `stop`. A worker that cannot beat for a whole lease stops its own work."""

    def __init__(
        self, database_url: str, watched: Watched, policy: Policy, on_failure: Callable[[], None]
    ) -> None:
        self._on_failure = on_failure
        self._database_url = database_url
        self._watched = watched
        self._policy = policy
        self._loop = asyncio.new_event_loop()
        self._stopping = asyncio.Event()
        self._thread = threading.Thread(target=self._main, name="heartbeat", daemon=True)
        self._unknown: frozenset[Lease] = frozenset()

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(timeout=5)

    def _main(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            try:
                runner.run(self._run())
            except Exception:  # a worker without a heartbeat must not go on
                log.exception("heartbeat.failed")
                self._on_failure()

    async def _run(self) -> None:
        engine = connect(self._database_url, Role.ENGINE, connections=1, name="heartbeat")
        last_beat = time.monotonic()
        try:
            while not self._stopping.is_set():
                asked_at = time.monotonic()
                before = self._watched.standing()
                try:
                    async with asyncio.timeout(self._policy.lease_seconds / 2):
                        answer = await beat(engine, before.boot_id, before.state, before.seats, self._policy)
                except (SQLAlchemyError, OSError, TimeoutError) as error:
                    log.warning("heartbeat.missed", error=type(error).__name__)
                    if time.monotonic() - last_beat > self._policy.lease_seconds:
                        self._watched.lose_everything(before.boot_id)
                        last_beat = time.monotonic()
                else:
                    last_beat = asked_at
                    if answer.alive:
                        self._compare(before, answer.held, answer.stopping)
                    else:
                        self._watched.lose_everything(before.boot_id)
                await self._pause()
        finally:
            await engine.dispose()

    def _compare(self, before: Standing, held: frozenset[Lease], stopping: frozenset[Lease]) -> None:
        """Bring the two views together. A claim or an outcome may be on its way, so what we do not
        know is given back only when two beats in a row agree."""
        now = self._watched.standing()
        if now.boot_id != before.boot_id:
            return
        self._watched.lose_jobs(before.leases - held)
        self._watched.stop_jobs(stopping)
        unknown = held - before.leases - now.leases
        self._watched.disown(unknown & self._unknown)
        self._unknown = unknown

    async def _pause(self) -> None:
        try:
            async with asyncio.timeout(self._policy.beat_seconds):
                await self._stopping.wait()
        except TimeoutError:
            return
