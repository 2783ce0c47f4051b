"""Celery over Redis: one configuration for whoever sends a message and whoever takes it.

Messages carry no work, so losing all of them costs a poll interval. JSON only, acknowledged
before the task runs, no prefetch, no results, no ETA, no priorities, no remote control: each of
these loses or repeats messages on Redis (celery#5935, #3270, #2599, #10280).
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlparse

from celery import Celery

MAINTENANCE_QUEUE = "maintenance"


def worker_queue(deployment: str) -> str:
    """The queue on which the workers of a deployment hear their doorbells."""
    return f"gpu.{deployment}"


def broker_url(redis_url: str) -> str:
    """The same server as Celery spells it; a unix socket has a scheme of its own there."""
    parsed = urlparse(redis_url)
    return f"redis+socket://{parsed.path}" if parsed.scheme == "unix" else redis_url


def celery_app(redis_url: str, name: str, **settings: Any) -> Celery:
    """A Celery application on that Redis; `settings` are added for one kind of process."""
    app = Celery(name, broker=broker_url(redis_url), set_as_current=False)
    app.conf.update(
        task_serializer="json",
        accept_content=["json"],
        task_ignore_result=True,
        task_acks_late=False,
        task_create_missing_queues=True,
        worker_prefetch_multiplier=1,
        worker_enable_remote_control=False,
        worker_send_task_events=False,
        worker_hijack_root_logger=False,
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        # Without retries of its own a send fails at once when Redis is away, and holds no thread. How
        # workers connect is not touched by this.
        broker_transport_options={"socket_keepalive": True, "health_check_interval": 10, "max_retries": 0},
        timezone="UTC",
        **settings,
    )
    return app
