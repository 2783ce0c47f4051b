"""Kill any part in mid-batch: the batch ends with one record per line (invariants 4 and 9)."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Callable

import pytest
import redis

from tests.e2e.platform import Platform, chat, some_done

LINES = 600


def flush(platform: Platform) -> None:
    with redis.Redis.from_url(platform.redis_url) as connection:
        connection.flushall()


KILLS: dict[str, Callable[[Platform], None]] = {
    "worker": lambda platform: platform.kill("worker"),
    "api": lambda platform: platform.kill("api"),
    "maintenance": lambda platform: platform.kill("maintenance"),
    "postgres killed": lambda platform: platform.kill("postgres"),
    "postgres restarted": lambda platform: platform.kill("postgres", signal.SIGINT),
    "valkey killed": lambda platform: platform.kill("valkey"),
    "valkey flushed": flush,
}


@pytest.mark.parametrize("name", KILLS)
@pytest.mark.timeout(180)
def test_a_batch_survives(simulated: Platform, name: str) -> None:
    batch = simulated.submit(chat(f"{name} {n}", f"question {n}", max_tokens=16) for n in range(LINES))
    simulated.wait(batch, until=some_done)

    KILLS[name](simulated)
    ended = simulated.wait(batch)

    assert ended.status == "completed"
    records = list(simulated.records(ended))
    assert Counter(record["custom_id"] for record in records) == Counter(f"{name} {n}" for n in range(LINES))
    assert all(
        record["response"]["body"]["choices"][0]["message"]["content"]
        == "question " + record["custom_id"].rsplit(" ", 1)[1]
        for record in records
    )
    assert ended.request_counts is not None
    assert (ended.request_counts.completed, ended.request_counts.total) == (LINES, LINES)
