"""One replica: an engine with its claim loop, from warming to drained.

Everything lives on one event loop in a thread of its own; the Celery side talks to it through
the few methods that say so.
"""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID, uuid4

import structlog
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine

from db import replicas
from db.connect import Role, connect
from db.objects import Objects
from db.readiness import announce
from db.replicas import ReplicaState
from lanes import failure
from lanes.job import Lease
from lanes.policy import Policy
from lanes.report import GivenBack
from workers.engines.port import Engine, EngineDead
from workers.gpu.claim_loop import ClaimLoop
from workers.gpu.completer import Completer
from workers.gpu.heartbeat import HeartbeatThread, Standing
from workers.gpu.held import Held, Verdict
from workers.gpu.settings import WorkerSettings
from workers.gpu.slices import SliceRunner

log = structlog.get_logger()

_CHECK_SECONDS = 1.0
_LEAVE_SECONDS = 3.0  # for the last reports and for the engine to close


class Replica:
    """Starts in the background, serves until `drain`, and says through `on_failure` that it died."""

    def __init__(
        self, settings: WorkerSettings, engine: Engine, policy: Policy, on_failure: Callable[[], None]
    ) -> None:
        self._settings = settings
        self._engine = engine
        self._policy = policy
        self._on_failure = on_failure
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._main, name="replica", daemon=True)
        self._held = Held()
        self._state = ReplicaState.WARMING
        self._boot_id = uuid4()
        self._leaving = asyncio.Event()
        self._completer: Completer | None = None
        self._claim_loop: ClaimLoop | None = None
        self._rejoining = False

    # -- called from other threads ------------------------------------------------------------

    def start(self) -> None:
        self._thread.start()

    def ring(self) -> None:
        """A doorbell: the claim loop looks at once."""
        self._loop.call_soon_threadsafe(self._ring)

    @property
    def is_warming(self) -> bool:
        return self._state is ReplicaState.WARMING

    def drain(self) -> None:
        """Stop claiming, let started requests run for a while, give the rest back, close."""
        self._loop.call_soon_threadsafe(self._leaving.set)
        self._thread.join(timeout=self._settings.drain_seconds + 2 * _LEAVE_SECONDS)

    # -- the heartbeat's view (see heartbeat.Watched), also from its thread --------------------

    def standing(self) -> Standing:
        seats = self._engine.seats
        return Standing(self._boot_id, self._state, seats, frozenset(self._held.leases()))

    def stop_jobs(self, leases: frozenset[Lease]) -> None:
        self._each(leases, lambda lease: self._held.stop(lease, Verdict.STOPPING))

    def lose_jobs(self, leases: frozenset[Lease]) -> None:
        self._each(leases, lambda lease: self._held.stop(lease, Verdict.LOST))

    def disown(self, leases: frozenset[Lease]) -> None:
        self._each(leases, self._give_back_unknown)

    def lose_everything(self, boot_id: UUID) -> None:
        self._loop.call_soon_threadsafe(lambda: self._loop.create_task(self._rejoin(boot_id)))

    def _each(self, leases: frozenset[Lease], action: Callable[[Lease], None]) -> None:
        for lease in leases:
            self._loop.call_soon_threadsafe(action, lease)

    # -- on the loop ----------------------------------------------------------------------------

    def _main(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            try:
                runner.run(self._run())
            except Exception:  # whatever it was, the process must end and be started again
                log.exception("replica.failed")
                self._on_failure()

    async def _run(self) -> None:
        url = self._settings.platform.database_url
        database = connect(url, Role.ENGINE, connections=4, name="worker")
        self._database = database
        await self._register(database)
        heartbeat = HeartbeatThread(url, self, self._policy, self._on_failure)
        heartbeat.start()
        try:
            announce("warming", os.environ)
            await self._engine.start()
            await self._serve(database)
        finally:
            await self._engine.close()
            heartbeat.stop()
            await replicas.retire(database, self._boot_id)
            await database.dispose()

    async def _serve(self, database: AsyncEngine) -> None:
        objects = Objects(self._settings.platform.objects_url)
        completer = Completer(database, objects, self._held, self._policy)
        runner = SliceRunner(self._engine, objects, self._held, completer, self._policy)
        self._completer = completer
        self._claim_loop = ClaimLoop(
            database,
            runner,
            deployment=self._settings.deployment,
            lanes=self._settings.lanes,
            seats=self._engine.seats,
            boot_id=lambda: self._boot_id,
            policy=self._policy,
        )
        completing = asyncio.create_task(completer.run(), name="completer")
        await self._become(ReplicaState.READY)
        claiming = asyncio.create_task(self._claim_loop.run(), name="claims")
        try:
            await self._until_leaving(runner, [completing, claiming])
            await self._become(ReplicaState.DRAINING)
        finally:
            await _cancelled([claiming])
            await self._empty(runner)
            await _cancelled([completing])

    async def _until_leaving(self, runner: SliceRunner, tasks: list[asyncio.Task[None]]) -> None:
        """Return when asked to leave.

        Raises:
            EngineDead: the engine is gone.
            Exception: what ended one of the tasks, none of which ends by itself.
        """
        leaving = asyncio.create_task(self._leaving.wait())
        dead = asyncio.create_task(runner.engine_dead.wait())
        try:
            while not leaving.done():
                done, _ = await asyncio.wait(
                    [leaving, dead, *tasks], timeout=_CHECK_SECONDS, return_when=asyncio.FIRST_COMPLETED
                )
                for task in done & set(tasks):
                    task.result()
                if dead in done:
                    raise EngineDead
                await self._engine.check()
        except EngineDead:
            runner.engine_died()  # before any of its requests may have noticed
            raise
        finally:
            await _cancelled([leaving, dead])

    async def _empty(self, runner: SliceRunner) -> None:
        """Give back what has not begun; let the rest end in the time that a drain has, and give back
        what is left."""
        patience = 0.0 if runner.engine_dead.is_set() else self._settings.drain_seconds
        runner.give_back_unstarted()
        for seconds in (patience, _LEAVE_SECONDS):
            try:
                async with asyncio.timeout(seconds):
                    await self._held.until_empty()
                return
            except TimeoutError:
                self._held.stop_all(Verdict.DRAINING)

    async def _become(self, state: ReplicaState) -> None:
        """Take a state and tell it at once: a claim is refused unless the row says "ready"."""
        self._state = state
        await replicas.beat(self._database, self._boot_id, state, self._engine.seats, self._policy)
        announce(state, os.environ)
        log.info("replica.state", state=state, boot=str(self._boot_id))

    async def _register(self, database: AsyncEngine) -> None:
        await replicas.register(
            database,
            boot_id=self._boot_id,
            deployment=self._settings.deployment,
            host=socket.gethostname(),
            pid=os.getpid(),
            seats=self._engine.seats,
            state=self._state,
            policy=self._policy,
        )

    def _ring(self) -> None:
        if self._claim_loop is not None:
            self._claim_loop.bell.set()

    async def _rejoin(self, lost: UUID) -> None:
        """The lease is gone, so is all it covered; the engine is fine: begin again as a new boot."""
        if lost != self._boot_id or self._rejoining:
            return
        log.error("lease.lost", boot=str(lost), jobs=len(self._held))
        self._rejoining = True
        self._boot_id = uuid4()
        self._held.stop_all(Verdict.LOST)
        while self._rejoining:
            try:
                await self._register(self._database)
                self._rejoining = False
            except (SQLAlchemyError, OSError) as error:
                log.warning("rejoin.waiting", error=type(error).__name__)
                await asyncio.sleep(self._policy.beat_seconds)

    def _give_back_unknown(self, lease: Lease) -> None:
        if self._completer is not None and lease not in self._held.leases():
            log.warning("lease.unknown", job=str(lease.job_id))
            self._completer.submit(GivenBack(lease, UUID(int=0), 0, failure.DRAINED.blames_job))


async def _cancelled(tasks: Sequence[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
