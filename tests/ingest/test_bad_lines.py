"""One file with every kind of bad line, refused as a whole or passed over."""

from __future__ import annotations

import json
from typing import Any

import pytest

from .conftest import CHAT, Desk, body, jsonl, request

GOOD = "good"  # in place of an error code


def encoded(value: Any) -> bytes:
    return json.dumps(value).encode()


# The bytes of each line, the code of its error and the param, in file order.
LINES: list[tuple[bytes, str, str | None]] = [
    (encoded(request("first")), GOOD, None),
    (b"{not json", "invalid_json_line", None),
    (b'{"custom_id": "cut", "method": "POST"', "invalid_json_line", None),
    (b'{"custom_id": "a", "custom_id": "b"}', "invalid_json_line", None),
    (encoded(request("nan", body=body(temperature=float("nan")))), "invalid_json_line", None),
    (rb'{"custom_id": "\ud800"}', "invalid_json_line", None),
    (b'{"custom_id": "deep", "x": ' + b"[" * 500 + b"]" * 500 + b"}", "invalid_json_line", None),
    (b"\xff\xfe{}", "invalid_utf8", None),
    (b"[1, 2, 3]", "invalid_request", None),
    (b'"hi"', "invalid_request", None),
    (b"null", "invalid_request", None),
    (b"x" * 5_000, "line_too_long", None),
    (b"{}", "missing_required_parameter", "custom_id"),
    (encoded(request("")), "invalid_request", "custom_id"),
    (encoded(request(7)), "invalid_request", "custom_id"),
    (encoded(request("nul\0")), "invalid_request", "custom_id"),
    (encoded(request("\u00e9" * 257)), "invalid_request", "custom_id"),
    (encoded(request("no-method") | {"method": None}), "missing_required_parameter", "method"),
    (encoded({"custom_id": "params", "params": {}}), "missing_required_parameter", "method"),
    (encoded(request("get", method="GET")), "invalid_request", "method"),
    (encoded(request("no-url") | {"url": None}), "missing_required_parameter", "url"),
    (encoded(request("url", url="/v1/embeddings")), "url_mismatch", "url"),
    (encoded(request("no-body") | {"body": None}), "missing_required_parameter", "body"),
    (encoded(request("text", body="SECRET")), "invalid_request", "body"),
    (encoded(request("stream", body=body(stream=True))), "unsupported_parameter", "body.stream"),
    (encoded(request("nomodel", body=body(model=None))), "missing_required_parameter", "body.model"),
    (encoded(request("model", body=body(model="none"))), "model_not_found", "body.model"),
    (encoded(request("nomsg", body={"model": "toy"})), "missing_required_parameter", "body.messages"),
    (encoded(request("msg", body=body(messages="SECRET"))), "invalid_request", "body.messages"),
    (
        encoded(request("tmpl", body=body(chat_template="SECRET"))),
        "unsupported_parameter",
        "body.chat_template",
    ),
    (encoded(request("n", body=body(n=1_000))), "invalid_request", "body.n"),
    (encoded(request("first")), "duplicate_custom_id", "custom_id"),
    (encoded(request("x" * 500)), GOOD, None),
    (encoded(request("x" * 500)), "duplicate_custom_id", "custom_id"),
    (encoded(request("last")), GOOD, None),
]
# A blank line before every fourth line, so that physical and other numbers differ.
FILE = b"".join((b"\r\n" if at % 4 == 0 else b"") + data + b"\n" for at, (data, _, _) in enumerate(LINES))
PHYSICAL = [at + 1 + at // 4 + 1 for at in range(len(LINES))]
EXPECTED = [
    (line, code, param) for line, (_, code, param) in zip(PHYSICAL, LINES, strict=True) if code != GOOD
]
GOOD_LINES = [line for line, (_, code, _) in zip(PHYSICAL, LINES, strict=True) if code == GOOD]


@pytest.fixture
def strict_desk(desk: Desk) -> Desk:
    return desk.with_policy(line_bytes=4_000, segment_lines=5)


def listed(errors: list[dict[str, Any]]) -> list[tuple[int, str, str | None]]:
    return [(error["line"], error["code"], error["param"]) for error in errors]


async def test_reject_tells_every_error_at_its_physical_line(strict_desk: Desk) -> None:
    batch = await strict_desk.batch(FILE)
    assert await strict_desk.ingest.run_once()
    state = await strict_desk.state(batch)
    assert state.status == "failed"
    assert state.failed_at is not None
    assert listed(state.errors) == EXPECTED
    assert state.errors_total == len(EXPECTED) >= 20
    for error in state.errors:
        assert set(error) == {"code", "message", "param", "line"}
        assert "SECRET" not in error["message"]
        assert error["message"].endswith(".")
    assert await strict_desk.queued(batch) == {}
    assert await strict_desk.rows("SELECT FROM segments") == []
    assert await strict_desk.rows("SELECT FROM lane_accounts") == []
    # All of them again, as a file that the client may download.
    [file] = await strict_desk.rows("SELECT * FROM files WHERE id = :id", id=state.errors_file_id)
    data = await strict_desk.read(file.object_key)
    assert [json.loads(line) for line in data.splitlines()] == state.errors
    assert (file.purpose, file.filename) == ("batch_output", f"batch_{batch.hex}_errors.jsonl")
    assert (file.bytes, file.tenant_id) == (len(data), strict_desk.tenant_id)


async def test_record_runs_the_good_lines_and_ends_the_bad_ones(strict_desk: Desk) -> None:
    batch = await strict_desk.batch(FILE, "record")
    assert await strict_desk.ingest.run_once()
    state = await strict_desk.state(batch)
    assert (state.status, state.total) == ("in_progress", len(LINES))
    queued = await strict_desk.queued(batch)
    assert {line: custom_id for line, (custom_id, _) in queued.items()} == dict(
        zip(GOOD_LINES, ["first", "x" * 500, "last"], strict=True)
    )
    ended = await strict_desk.rows(
        "SELECT jobs_done.*, outcomes.body FROM jobs_done JOIN outcomes ON job_id = id"
        " WHERE batch_id = :id ORDER BY line",
        id=batch,
    )
    assert listed([json.loads(job.body) for job in ended]) == EXPECTED
    for job in ended:
        assert (job.state, job.status_code, job.error_code) == ("failed", None, json.loads(job.body)["code"])
        assert (job.fence, job.attempts, job.lane, job.flow_id) == (0, 0, 2, batch)
    names = {job.line: job.custom_id for job in ended}
    by_code = {code: names[line] for line, code, _ in EXPECTED}
    assert by_code["duplicate_custom_id"] == "x" * 500
    assert by_code["url_mismatch"] == "url"
    assert by_code["invalid_json_line"] is None
    [progress] = await strict_desk.rows("SELECT * FROM batch_progress")
    assert (progress.batch_id, progress.succeeded, progress.unsuccessful) == (batch, 0, len(EXPECTED))


async def test_duplicates_name_both_lines(desk: Desk) -> None:
    lines = [request("a"), request("b"), request("a"), request("a")]
    batch = await desk.batch(b"\n".join(map(encoded, lines)))
    await desk.ingest.run_once()
    assert [error["message"] for error in (await desk.state(batch)).errors] == [
        f'custom_id "a" of line {line} is already that of line 1. Give every line its own.' for line in (3, 4)
    ]


async def test_the_first_thousand_are_listed_and_all_are_counted(desk: Desk) -> None:
    bad = desk.with_policy(listed_errors=10)
    batch = await bad.batch(jsonl(3) + b"[]\n" * 5_000)
    await bad.ingest.run_once()
    state = await bad.state(batch)
    assert [error["line"] for error in state.errors] == list(range(4, 14))
    assert state.errors_total == 5_000
    [file] = await bad.rows("SELECT object_key FROM files WHERE id = :id", id=state.errors_file_id)
    data = await bad.read(file.object_key)
    assert [json.loads(line)["line"] for line in data.splitlines()] == list(range(4, 5_004))


async def test_record_with_no_good_line_still_starts(desk: Desk) -> None:
    batch = await desk.batch(b"[]\n{}\n", "record")
    await desk.ingest.run_once()
    state = await desk.state(batch)
    assert (state.status, state.total, state.model) == ("in_progress", 2, None)
    assert len(await desk.rows("SELECT FROM jobs_done")) == 2


@pytest.mark.parametrize("on_invalid_line", ["reject", "record"])
async def test_errors_of_the_whole_file_fail_either_way(desk: Desk, on_invalid_line: str) -> None:
    few = desk.with_policy(file_lines=3)
    empty = await few.batch(b"\xef\xbb\xbf\r\n\n", on_invalid_line)
    long = await few.batch(jsonl(5), on_invalid_line)
    lost = await few.batch_of("uploads/never-was", on_invalid_line)
    while await few.ingest.run_once():
        pass
    found = [(await few.state(batch)).errors for batch in (empty, long, lost)]
    assert [listed(errors) for errors in found] == [
        [(None, "empty_batch", None)],
        [(4, "too_many_tasks", None)],
        [(None, "input_file_not_found", "input_file_id")],
    ]
    assert await few.rows("SELECT FROM jobs UNION ALL SELECT FROM jobs_done") == []
    assert await few.rows("SELECT FROM segments") == []


async def test_the_endpoint_decides_what_a_body_needs(desk: Desk) -> None:
    line = request("a", url="/v1/completions", body={"model": "toy", "prompt": "hi"})
    batch = await desk.batch(encoded(line), endpoint="/v1/completions")
    other = await desk.batch(encoded(line), endpoint=CHAT)
    while await desk.ingest.run_once():
        pass
    assert (await desk.state(batch)).status == "in_progress"
    assert listed((await desk.state(other)).errors) == [(1, "url_mismatch", "url")]
