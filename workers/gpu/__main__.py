"""`python -m workers.gpu`: a GPU worker for one deployment, set up by its environment."""

from __future__ import annotations

import os
import sys

from db.logs import configure_logs
from db.redis.broker import celery_app, worker_queue
from db.settings import SettingsError
from workers.gpu.settings import WorkerSettings
from workers.gpu.step import ReplicaStep


def main() -> int:
    configure_logs()
    try:
        settings = WorkerSettings.from_environment(os.environ)
    except SettingsError as error:
        print(error, file=sys.stderr)
        return 2
    app = celery_app(settings.platform.redis_url, "fairlane.gpu", fairlane_worker=settings)
    app.steps["worker"].add(ReplicaStep)
    app.worker_main(
        [
            "--quiet",
            "worker",
            "--pool=threads",
            "--concurrency=2",  # tasks only ring; the work is the replica's
            f"--queues={worker_queue(settings.deployment)}",
            f"--hostname=gpu-{os.getpid()}@%h",
            "--without-gossip",
            "--without-mingle",
            "--without-heartbeat",
            "--loglevel=WARNING",
        ]
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
