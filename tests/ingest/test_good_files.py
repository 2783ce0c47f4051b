"""What a valid file becomes."""

from __future__ import annotations

import json

from sqlalchemy import text

from .conftest import Desk, body, jsonl, request


async def test_every_line_is_queued_once_with_its_own_body(desk: Desk) -> None:
    small = desk.with_policy(segment_lines=7)
    batch = await small.batch(jsonl(50))
    assert await small.ingest.run_once()
    state = await small.state(batch)
    assert (state.status, state.total, state.model, state.lease_until) == ("in_progress", 50, "toy", None)
    assert state.in_progress_at is not None
    assert (state.errors, state.errors_total, state.errors_file_id) == (None, 0, None)
    assert await small.queued(batch) == {n: (str(n), f"prompt {n}") for n in range(1, 51)}
    segments = await small.rows("SELECT bytes, kind, tenant_id, object_key FROM segments")
    assert len(segments) == 8
    for segment in segments:
        assert (segment.kind, segment.tenant_id) == ("input", desk.tenant_id)
        assert len(await small.read(segment.object_key)) == segment.bytes
    assert not await small.ingest.run_once(), "nothing is left to validate"


async def test_the_columns_that_claims_use(desk: Desk) -> None:
    lines = [request("a", body=body(max_tokens=5, n=2)), request("b", body=body())]
    batch = await desk.batch("\n\n".join(json.dumps(line) for line in lines).encode())
    await desk.ingest.run_once()
    state = await desk.state(batch)
    jobs = await desk.rows("SELECT * FROM jobs ORDER BY line")
    assert [(job.line, job.ord, job.custom_id, job.output_tokens) for job in jobs] == [
        (1, 2, "a", 10),
        (3, 1, "b", desk.parts.policy.output_guess_tokens),
    ]
    for job in jobs:
        assert (job.lane, job.rank, job.state, job.fence, job.attempts) == (2, 0, "queued", 0, 0)
        assert (job.flow_id, job.batch_id, job.tenant_id) == (batch, batch, desk.tenant_id)
        assert (job.model, job.endpoint, job.deadline) == ("toy", state.endpoint, state.expires_at)
        assert job.bucket == int(state.expires_at.timestamp() // desk.parts.policy.bucket_seconds)
        assert job.input_tokens == -(-job.byte_length // 4)


async def test_line_ends_marks_and_blank_lines(desk: Desk) -> None:
    odd = "one \u2028 two \u2029 three \u0085 four"
    lines = [
        "\ufeff" + json.dumps(request("bom")) + "\r\n",
        "\r\n",
        " \t\n",
        json.dumps(request("odd", odd), ensure_ascii=False) + "\n",
        json.dumps(request("tab\tand\\back\nslash\rand \\N")) + "\r\n",
        json.dumps(request("last \U0001f600", "\U0001f600")),
    ]
    batch = await desk.batch("".join(lines).encode())
    await desk.ingest.run_once()
    assert await desk.queued(batch) == {
        1: ("bom", "hi"),
        4: ("odd", odd),
        5: ("tab\tand\\back\nslash\rand \\N", "hi"),
        6: ("last \U0001f600", "\U0001f600"),
    }
    assert (await desk.state(batch)).total == 4


async def test_several_models_each_get_their_accounts(desk: Desk) -> None:
    lines = [request("a"), request("b", body=body(model="other/model"))]
    batch = await desk.batch("\n".join(json.dumps(line) for line in lines).encode())
    await desk.ingest.run_once()
    assert (await desk.state(batch)).model is None
    accounts = await desk.rows("SELECT model, lane, flow_id, weight, active FROM lane_accounts ORDER BY 1, 3")
    assert [(a.model, a.lane, a.flow_id == batch, a.weight, a.active) for a in accounts] == [
        ("other/model", 2, False, 4, True),
        ("other/model", 2, True, 1, True),
        ("toy", 2, False, 4, True),
        ("toy", 2, True, 1, True),
    ]


async def test_two_batches_may_share_custom_ids(desk: Desk) -> None:
    first, second = await desk.batch(jsonl(3)), await desk.batch(jsonl(3))
    assert await desk.ingest.run_once()
    assert await desk.ingest.run_once()
    assert await desk.queued(first) == await desk.queued(second)


async def test_nothing_of_the_staging_is_left_in_the_session(desk: Desk) -> None:
    await desk.batch(jsonl(3))
    await desk.ingest.run_once()
    async with desk.parts.database.connect() as connection:  # the pool gives back the last one used
        left = await connection.execute(text("SELECT count(*) FROM pg_class WHERE relname LIKE 'staged%'"))
        assert left.scalar_one() == 0
