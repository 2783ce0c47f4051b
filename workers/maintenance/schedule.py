"""When beat asks for which service. A tick that could not be taken in time is dropped.

The sweep looks for all three and rings the other two when they have work.
"""

from __future__ import annotations

from typing import Any

from db.redis.broker import MAINTENANCE_QUEUE
from db.redis.doorbell import FINALISE_TASK, INGEST_TASK

SWEEP_TASK = "fairlane.sweep"
HOUSEKEEPING_TASK = "fairlane.housekeeping"
ORPHANS_TASK = "fairlane.orphans"
LEARN_TASK = "fairlane.learn"
RECONCILE_TASK = "fairlane.reconcile"

_EVERY_SECONDS = {
    SWEEP_TASK: 2.0,
    FINALISE_TASK: 60.0,
    INGEST_TASK: 60.0,
    HOUSEKEEPING_TASK: 60.0,
    ORPHANS_TASK: 3600.0,
    LEARN_TASK: 10.0,
    RECONCILE_TASK: 60.0,
}

SCHEDULE: dict[str, dict[str, Any]] = {
    task: {
        "task": task,
        "schedule": seconds,
        "options": {"queue": MAINTENANCE_QUEUE, "expires": seconds},
    }
    for task, seconds in _EVERY_SECONDS.items()
}
