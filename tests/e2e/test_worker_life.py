"""A worker's ways to leave: drained, and frozen for so long that it has become a zombie; and its bell."""

from __future__ import annotations

import os
import signal
from collections import Counter
from functools import partial
from typing import Any

import pytest
import redis

from db.redis.broker import celery_app, worker_queue
from db.redis.doorbell import RING_TASK
from tests.e2e.platform import MODEL, Platform, chat
from tests.eventually import eventually

ECHO = {"FAIRLANE_ENGINE": "simulated", "FAIRLANE_SIMULATED_ECHO": "1"}


def assert_each_line_once(records: list[dict[str, Any]], lines: int) -> None:
    assert Counter(record["custom_id"] for record in records) == Counter(str(n) for n in range(lines))


def test_a_drained_worker_ends_tidily_and_loses_nothing(simulated: Platform) -> None:
    with simulated.another_worker(**ECHO, FAIRLANE_DRAIN_SECONDS="1") as other:
        batch = simulated.submit(chat(str(n), f"{n} " + "word " * 30, max_tokens=64) for n in range(800))
        eventually(lambda: simulated.jobs_held_by(other.pid) > 0)

        other.terminate()

        assert other.wait(15) == 0
    ended = simulated.wait(batch)
    assert ended.status == "completed"
    assert_each_line_once(list(simulated.records(ended)), 800)


def test_500_identical_doorbells_for_one_job_are_one_attempt(simulated: Platform) -> None:
    worker = simulated.pid("worker")
    app = celery_app(simulated.redis_url, "test")
    batch = simulated.submit([chat("0", "once", max_tokens=16)])
    for _ in range(500):
        app.send_task(RING_TASK, queue=worker_queue(MODEL))

    ended = simulated.wait(batch)

    assert ended.status == "completed"
    assert simulated.leases_of(batch) == [1]
    with redis.Redis.from_url(simulated.redis_url) as broker:
        eventually(lambda: broker.llen(worker_queue(MODEL)) == 0)
    assert simulated.pid("worker") == worker, "it has answered every bell and lives"


@pytest.mark.slow
def test_a_zombie_writes_nothing_and_then_serves_again(simulated: Platform) -> None:
    """SIGSTOP for longer than a lease, then SIGCONT: its jobs are another's by then."""
    with simulated.another_worker(**ECHO, FAIRLANE_SIMULATED_SPEED="0.2") as zombie:
        batch = simulated.submit(chat(str(n), f"{n} " + "word " * 30, max_tokens=64) for n in range(800))
        eventually(lambda: simulated.jobs_held_by(zombie.pid) > 0)
        os.kill(zombie.pid, signal.SIGSTOP)
        frozen = simulated.jobs_held_by(zombie.pid)
        ended = simulated.wait(batch)  # needs the rescue: the zombie held some of the lines
        os.kill(zombie.pid, signal.SIGCONT)

        assert frozen > 0
        assert ended.status == "completed"
        before = list(simulated.records(ended))
        assert_each_line_once(before, 800)
        again = simulated.submit(chat(str(n), "again", max_tokens=16) for n in range(300))
        assert simulated.wait(again).status == "completed"
        assert zombie.poll() is None, "it has joined again under another boot"
        assert list(simulated.records(simulated.client.batches.retrieve(batch.id))) == before


@pytest.mark.timeout(180)
@pytest.mark.slow
def test_five_evictions_of_a_worker_cost_no_job_anything(simulated: Platform) -> None:
    """kill -9 of whoever holds jobs, five times: an eviction is nobody's failed attempt."""
    batch = simulated.submit(chat(str(n), f"{n} " + "word " * 30, max_tokens=64) for n in range(1_500))
    for _ in range(5):
        with simulated.another_worker(**ECHO, FAIRLANE_SIMULATED_SPEED="0.2") as doomed:
            eventually(partial(simulated.jobs_held_by, doomed.pid))
            doomed.kill()

    ended = simulated.wait(batch)

    assert ended.status == "completed"
    assert_each_line_once(list(simulated.records(ended)), 1_500)
    assert ended.request_counts is not None
    assert (ended.request_counts.completed, ended.request_counts.failed) == (1_500, 0)
    assert max(simulated.leases_of(batch)) > 1, "some were leased again"
