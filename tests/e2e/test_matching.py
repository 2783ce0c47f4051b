"""Question and answer belong together, and cancelling and expiry keep the count."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from openai.types import Batch

from tests.e2e.platform import Platform, chat

FAST = {"FAIRLANE_ENGINE": "simulated", "FAIRLANE_SIMULATED_ECHO": "1", "FAIRLANE_SIMULATED_SPEED": "1000"}


@pytest.mark.timeout(240)
def test_two_batches_of_10_000_lines_on_two_workers_keep_each_answer_with_its_question(
    simulated: Platform,
) -> None:
    def submit(name: str) -> Batch:
        return simulated.submit(chat(f"{n}", f"{name} asks {n}", max_tokens=16) for n in range(10_000))

    with simulated.another_worker(**FAST), ThreadPoolExecutor() as pool:
        batches = list(pool.map(submit, ("first", "second")))
        ended = [simulated.wait(batch, within_s=200) for batch in batches]
    for name, batch in zip(("first", "second"), ended, strict=True):
        answers = {
            record["custom_id"]: record["response"]["body"]["choices"][0]["message"]["content"]
            for record in simulated.records(batch)
        }
        assert answers == {str(n): f"{name} asks {n}" for n in range(10_000)}


def test_a_cancelled_batch_has_one_record_per_line(simulated: Platform) -> None:
    batch = simulated.submit(chat(str(n), "wait " * 50, max_tokens=400) for n in range(500))
    simulated.wait(batch, until=lambda seen: seen.status == "in_progress")

    simulated.client.batches.cancel(batch.id)
    ended = simulated.wait(batch)

    assert ended.status == "cancelled"
    assert sorted(int(record["custom_id"]) for record in simulated.records(ended)) == list(range(500))


def test_a_batch_past_its_window_expires_and_keeps_finished_work(simulated: Platform) -> None:
    batch = simulated.submit(
        (chat(str(n), "word " * (1 if n < 5 else 60), max_tokens=64) for n in range(4_000)),
        completion_window="8s",
    )

    ended = simulated.wait(batch)

    assert ended.status == "expired"
    records = list(simulated.records(ended))
    assert sorted(int(record["custom_id"]) for record in records) == list(range(4_000))
    expired = [record for record in records if record["error"]]
    assert {record["error"]["code"] for record in expired} == {"batch_expired"}
    assert len(expired) < 4_000, "what was finished in time is kept"
