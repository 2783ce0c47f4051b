"""The boot step that gives a Celery worker its replica, and the task that rings it."""

from __future__ import annotations

import os
from typing import Any

from celery import bootsteps

from db.guard import Guard, start_guard
from db.processes import Identity
from db.redis.doorbell import RING_TASK
from lanes.policy import DEFAULT
from workers.engines.choice import build_engine
from workers.gpu.replica import Replica
from workers.gpu.settings import WorkerSettings


class ReplicaStep(bootsteps.StartStopStep):  # type: ignore[misc]  # celery ships no types
    """Owns the replica. `close` drains: it runs before every `stop`, the pool's included."""

    requires = ("celery.worker.components:Pool",)

    def __init__(self, worker: Any, **options: Any) -> None:
        super().__init__(worker, **options)
        settings: WorkerSettings = worker.app.conf.fairlane_worker
        self._replica = Replica(settings, build_engine(settings), DEFAULT, on_failure=_end_process)
        self._guard: Guard | None = None

        @worker.app.task(name=RING_TASK, ignore_result=True)  # type: ignore[untyped-decorator]  # celery ships no types
        def ring() -> None:
            self._replica.ring()

    def start(self, worker: Any) -> None:
        me = Identity.of_this_process()
        self._guard = start_guard(me, sessions=[me])
        self._replica.start()

    def close(self, worker: Any) -> None:
        if self._replica.is_warming:
            os._exit(0)
        self._replica.drain()

    def stop(self, worker: Any) -> None:
        return None


def _end_process() -> None:
    """Leave with a failure: the supervisor starts the worker again, the guard ends the engine."""
    os._exit(1)
