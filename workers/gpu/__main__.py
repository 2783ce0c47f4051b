"""`python -m workers.gpu`: a GPU worker for one deployment, set up by its environment."""

from __future__ import annotations

import os
import sys

from db.logs import configure_logs
from db.redis.broker import celery_app, worker_queue
from db.settings import SettingsError
from workers.gpu.settings import WorkerSettings
from workers.gpu.step import ReplicaStep
from workers.run import run_worker


def main() -> int:
    configure_logs()
    try:
        settings = WorkerSettings.from_environment(os.environ)
    except SettingsError as error:
        print(error, file=sys.stderr)
        return 2
    app = celery_app(settings.platform.redis_url, "fairlane.gpu", fairlane_worker=settings)
    app.steps["worker"].add(ReplicaStep)
    # The tasks only ring; the work is the replica's.
    run_worker(app, kind="gpu", queue=worker_queue(settings.deployment), concurrency=2)
    return 0


if __name__ == "__main__":
    sys.exit(main())
