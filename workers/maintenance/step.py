"""The boot step of the maintenance worker: its services on one event loop, and its beat."""

from __future__ import annotations

import asyncio
import os
import threading
from typing import Any

from celery import bootsteps
from celery.beat import EmbeddedService, Scheduler

from db.connect import Role, connect
from db.objects import Objects
from db.readiness import READY, announce
from db.redis.doorbell import FINALISE_TASK, INGEST_TASK, Doorbell
from db.settings import Settings
from lanes.policy import DEFAULT
from workers.maintenance.finalise import Finalise
from workers.maintenance.housekeeping import Housekeeping
from workers.maintenance.ingest import Ingest
from workers.maintenance.learn import Learn
from workers.maintenance.orphans import Orphans
from workers.maintenance.reconcile import Reconcile
from workers.maintenance.schedule import (
    HOUSEKEEPING_TASK,
    LEARN_TASK,
    ORPHANS_TASK,
    RECONCILE_TASK,
    SWEEP_TASK,
)
from workers.maintenance.services import Parts, Service
from workers.maintenance.sweep import Sweep

_LEAVE_SECONDS = 5.0


class MaintenanceStep(bootsteps.StartStopStep):  # type: ignore[misc]  # celery ships no types
    """A tick is a Celery task that runs its service to the end on the loop of this step."""

    requires = ("celery.worker.components:Pool",)

    def __init__(self, worker: Any, **options: Any) -> None:
        super().__init__(worker, **options)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="maintenance", daemon=True)
        settings: Settings = worker.app.conf.fairlane_settings
        self._parts = Parts(
            connect(settings.database_url, Role.ENGINE, connections=8, name="maintenance"),
            Objects(settings.objects_url),
            Doorbell(worker.app),
            DEFAULT,
        )
        services = {
            SWEEP_TASK: Sweep(self._parts).run_once,
            FINALISE_TASK: Finalise(self._parts).run_once,
            INGEST_TASK: Ingest(self._parts).run_once,
            HOUSEKEEPING_TASK: Housekeeping(self._parts).run_once,
            ORPHANS_TASK: Orphans(self._parts).run_once,
            LEARN_TASK: Learn(self._parts).run_once,
            RECONCILE_TASK: Reconcile(self._parts).run_once,
        }
        for name, run_once in services.items():
            self._add_task(worker.app, Service(name, run_once))
        # A thread and not a process: kill -9 of this worker must leave nothing behind.
        # It takes no scheduler from the settings, and its own default would keep a file.
        self._beat = EmbeddedService(worker.app, thread=True, scheduler_cls=Scheduler)

    def _add_task(self, app: Any, service: Service) -> None:
        @app.task(name=service.name, ignore_result=True)  # type: ignore[untyped-decorator]  # celery ships no types
        def tick() -> None:
            asyncio.run_coroutine_threadsafe(service.run(), self._loop).result()

    def start(self, worker: Any) -> None:
        self._thread.start()
        self._beat.start()
        announce(READY, os.environ)

    def close(self, worker: Any) -> None:
        """Cancel what runs: every service can be interrupted anywhere and is begun anew elsewhere."""
        self._beat.stop()
        asyncio.run_coroutine_threadsafe(self._leave(), self._loop).result(timeout=_LEAVE_SECONDS)

    async def _leave(self) -> None:
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._parts.database.dispose()

    def stop(self, worker: Any) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
