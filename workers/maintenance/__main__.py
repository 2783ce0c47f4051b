"""`python -m workers.maintenance`: the maintenance worker, with its beat."""

from __future__ import annotations

import os
import sys

from db.logs import configure_logs
from db.redis.broker import MAINTENANCE_QUEUE, celery_app
from db.settings import Settings, SettingsError
from workers.maintenance.schedule import SCHEDULE
from workers.maintenance.step import MaintenanceStep


def main() -> int:
    configure_logs()
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
    app.worker_main(
        [
            "--quiet",
            "worker",
            "--pool=threads",
            "--concurrency=6",  # each task waits for its service; a long one must not hold up the sweep
            f"--queues={MAINTENANCE_QUEUE}",
            f"--hostname=maintenance-{os.getpid()}@%h",
            "--without-gossip",
            "--without-mingle",
            "--without-heartbeat",
            "--loglevel=WARNING",
        ]
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
