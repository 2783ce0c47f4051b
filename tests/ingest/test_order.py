"""When a line runs and by when: its own deadline and rank, its prefix group, its expected length."""

from __future__ import annotations

import json
import random
from datetime import timedelta
from typing import Any

import pytest

from .conftest import Desk, body, request
from .test_bad_lines import listed


def data(*lines: dict[str, Any]) -> bytes:
    return "\n".join(json.dumps(line) for line in lines).encode()


async def order(desk: Desk) -> list[str]:
    """custom_ids as the claim index has them."""
    rows = await desk.rows("SELECT custom_id FROM jobs ORDER BY model, rank, bucket, ord")
    return [row.custom_id for row in rows]


async def test_a_line_has_its_own_deadline_from_the_creation_of_the_batch(desk: Desk) -> None:
    batch = await desk.batch(
        data(
            request("window"),
            request("soon", fairlane_deadline="90s"),
            request("most", fairlane_deadline="60m"),
        )
    )
    await desk.execute(  # created a while ago: what ingest took is not added
        "UPDATE batches SET created_at = created_at - interval '40 s',"
        " expires_at = expires_at - interval '40 s'"
    )
    await desk.ingest.run_once()
    state = await desk.state(batch)
    jobs = {job.custom_id: job for job in await desk.rows("SELECT * FROM jobs")}
    assert jobs["soon"].deadline == state.created_at + timedelta(seconds=90)
    assert jobs["window"].deadline == state.expires_at
    assert jobs["most"].deadline <= state.expires_at, "never beyond the window"
    width = desk.parts.policy.bucket_seconds
    for job in jobs.values():
        assert job.bucket == int(job.deadline.timestamp() // width)


async def test_a_lower_priority_runs_first_and_then_the_nearer_deadline(desk: Desk) -> None:
    batch = await desk.batch(
        data(
            request("last", fairlane_priority=8),
            request("plain"),
            request("near", fairlane_deadline="1m"),
            request("first", fairlane_priority=-8),
        )
    )
    await desk.ingest.run_once()
    assert (await desk.state(batch)).status == "in_progress"
    assert await order(desk) == ["first", "near", "plain", "last"]


def prompt(shared: str, question: int, tokens: int) -> dict[str, Any]:
    messages = [{"role": "system", "content": shared}, {"role": "user", "content": f"question {question}"}]
    return body(messages=messages, max_tokens=tokens)


async def test_lines_that_begin_alike_run_together_and_the_longest_answers_first(desk: Desk) -> None:
    lines = []
    for n in range(60):
        group = "AB-"[n % 3]
        shared = f"{group if group != '-' else n}" * 600
        lines.append(request(f"{group}{n}", body=prompt(shared, n, tokens=n % 7 + 1)))
    batch = await desk.batch(data(*lines))
    await desk.ingest.run_once()
    found = await order(desk)
    assert "".join(name[0] for name in found) == "A" * 20 + "B" * 20 + "-" * 20
    lengths = [int(name[1:]) % 7 for name in found]
    for start in (0, 20, 40):
        part = lengths[start : start + 20]
        assert part == sorted(part, reverse=True)
    # Only the order of execution: the records follow the lines.
    jobs = await desk.rows("SELECT line, custom_id FROM jobs WHERE batch_id = :id ORDER BY line", id=batch)
    assert [job.custom_id for job in jobs] == [line["custom_id"] for line in lines]


async def test_the_order_does_not_depend_on_how_the_file_is_cut(desk: Desk) -> None:
    chance = random.Random(7)
    lines = [request(f"{n}", "x" * chance.choice([10, 2_000]) + f"{n % 5}") for n in range(40)]
    await desk.batch(data(*lines))
    await desk.ingest.run_once()
    whole = await order(desk)
    await desk.execute("DELETE FROM jobs")
    await desk.batch(data(*lines))
    await desk.with_policy(segment_lines=3).ingest.run_once()
    assert await order(desk) == whole


@pytest.mark.parametrize("on_invalid_line", ["reject", "record"])
async def test_bad_wishes_are_named_with_their_lines(desk: Desk, on_invalid_line: str) -> None:
    batch = await desk.batch(
        data(
            request("good", fairlane_deadline="1h", fairlane_priority=3),
            request("late", fairlane_deadline="2h"),
            request("rank", fairlane_priority=9),
            request("inside", body=body(fairlane_deadline="15m")),
            request("inside too", body=body(fairlane_priority=1)),
            request("typo", fairlane_due="15m"),
        ),
        on_invalid_line,
    )
    await desk.ingest.run_once()
    state = await desk.state(batch)
    assert listed(state.errors) == [
        (2, "invalid_request", "fairlane_deadline"),
        (3, "invalid_request", "fairlane_priority"),
        (4, "unsupported_parameter", "body.fairlane_deadline"),
        (5, "unsupported_parameter", "body.fairlane_priority"),
        (6, "unsupported_parameter", None),
    ]
    assert state.status == ("failed" if on_invalid_line == "reject" else "in_progress")


async def test_answers_are_predicted_by_what_the_tenant_got_before(desk: Desk) -> None:
    await desk.execute(
        "INSERT INTO output_lengths (tenant_id, model, input_bucket, output_bucket, jobs)"
        " SELECT :tenant, 'toy', bucket, 3, 1000 FROM generate_series(0, 12) AS bucket",
        tenant=desk.tenant_id,
    )
    await desk.batch(data(request("seen"), request("other", body=body(model="other/model"))))
    await desk.ingest.run_once()
    jobs = {job.custom_id: job.output_tokens for job in await desk.rows("SELECT * FROM jobs")}
    assert 4 < jobs["seen"] <= 8, "the third bucket holds 5 to 8 tokens"
    assert jobs["other"] == desk.parts.policy.output_guess_tokens
