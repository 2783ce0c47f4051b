"""Windows and deadlines by the official client, through the whole platform."""

from __future__ import annotations

import json
from typing import Any

import pytest
from openai.types import Batch

from tests.e2e.platform import Platform, chat


def codes(platform: Platform, file_id: str | None) -> dict[str, str]:
    """custom_id and error code of every record of an error file."""
    assert file_id is not None
    found = {}
    for line in platform.client.files.content(file_id).text.splitlines():
        record = json_line(line)
        found[record["custom_id"]] = record["error"]["code"]
    return found


@pytest.mark.parametrize(
    ("window", "seconds"), [("45s", 45), ("15m", 900), ("1h", 3600), ("24h", 86400), ("7d", 604800)]
)
def test_a_window_of_any_duration_runs_a_batch(simulated: Platform, window: str, seconds: int) -> None:
    batch = simulated.submit([chat("a", "hi", max_tokens=4)], completion_window=window)
    assert batch.completion_window == window
    assert batch.expires_at == batch.created_at + seconds

    ended = simulated.wait(batch)

    assert (ended.status, ended.completion_window) == ("completed", window)
    assert len(list(simulated.records(ended))) == 1


def test_lines_past_their_own_deadlines_expire_and_the_batch_completes(simulated: Platform) -> None:
    """The hurried lines come last in the order of execution, so that the others go first."""
    hurry = {"fairlane_deadline": "1s", "fairlane_priority": 8}
    lines = [chat(f"calm {n}", "word " * 40, max_tokens=40) for n in range(300)]
    lines += [chat(f"hurried {n}", "word " * 40, max_tokens=40) | hurry for n in range(20)]
    batch = simulated.submit(lines, completion_window="1h")

    ended = simulated.wait(batch)

    assert ended.status == "completed"
    counts(ended, total=320, failed=20)
    assert codes(simulated, ended.error_file_id) == {f"hurried {n}": "batch_expired" for n in range(20)}
    assert ended.output_file_id is not None
    output = simulated.client.files.content(ended.output_file_id).text.splitlines()
    names = [json_line(line)["custom_id"] for line in output]
    assert names == [f"calm {n}" for n in range(300)], "finished work is kept, in the order of the lines"


def test_a_deadline_beyond_the_window_is_refused_with_its_line(simulated: Platform) -> None:
    lines = [chat("a", "hi") | {"fairlane_deadline": "15m"}, chat("b", "hi") | {"fairlane_deadline": "2h"}]
    failed = simulated.wait(simulated.submit(lines, completion_window="1h"))

    assert failed.status == "failed"
    assert failed.errors is not None
    assert failed.errors.data is not None
    [error] = failed.errors.data
    assert (error.line, error.param) == (2, "fairlane_deadline")
    assert error.message is not None
    assert "at most the batch's completion window, 1h" in error.message


def counts(batch: Batch, total: int, failed: int) -> None:
    assert batch.request_counts is not None
    assert batch.request_counts.model_dump() == {
        "total": total,
        "completed": total - failed,
        "failed": failed,
    }


def json_line(line: str) -> dict[str, Any]:
    record: dict[str, Any] = json.loads(line)
    return record
