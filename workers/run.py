"""Running a Celery worker in this process, as every worker of Fairlane is run."""

from __future__ import annotations

import os

from celery import Celery


def run_worker(app: Celery, *, kind: str, queue: str, concurrency: int) -> None:
    """Serve one queue until SIGTERM. Threads: what takes time runs elsewhere, or must share memory.

    Gossip, mingle and heartbeats between workers are off: nothing here listens to them, and on
    Redis they pile up after each reconnect (celery#10277).
    """
    app.worker_main(
        [
            "--quiet",
            "worker",
            "--pool=threads",
            f"--concurrency={concurrency}",
            f"--queues={queue}",
            f"--hostname={kind}-{os.getpid()}@%h",
            "--without-gossip",
            "--without-mingle",
            "--without-heartbeat",
            "--loglevel=WARNING",
        ]
    )
