"""`python -m workers.maintenance`: the maintenance worker, with its beat."""

from __future__ import annotations

import os
import sys

from db.logs import configure_logs
from db.redis.broker import MAINTENANCE_QUEUE, celery_app
from db.settings import Settings, SettingsError
from workers.maintenance.schedule import SCHEDULE
from workers.maintenance.step import MaintenanceStep
from workers.run import run_worker


def main() -> int:
    configure_logs()
    # On a machine that it shares with an engine, housekeeping takes what the engine leaves.
    os.nice(10)
    try:
        settings = Settings.from_environment(os.environ)
    except SettingsError as error:
        print(error, file=sys.stderr)
        return 2
    app = celery_app(
        settings.redis_url,
        "fairlane.maintenance",
        fairlane_settings=settings,
        beat_schedule=SCHEDULE,
    )
    app.steps["worker"].add(MaintenanceStep)
    # Each task waits for its service; one that takes long must not hold up the sweep.
    run_worker(app, kind="maintenance", queue=MAINTENANCE_QUEUE, concurrency=8)
    return 0


if __name__ == "__main__":
    sys.exit(main())
