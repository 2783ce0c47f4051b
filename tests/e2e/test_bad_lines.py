"""The file of every bad line, as a client meets it: refused with all errors, or run without them."""

from __future__ import annotations

import json

from tests.e2e.platform import MODEL, Platform
from tests.ingest.test_bad_lines import GOOD, LINES

# Through the API the platform's own limit of 32 MB a line holds, so that kind is left to tests/ingest.
KINDS = [kind for kind in LINES if kind[1] != "line_too_long"]
FILE = [data.replace(b'"toy"', json.dumps(MODEL).encode()) + b"\n" for data, _, _ in KINDS]
EXPECTED = [(line, code) for line, (_, code, _) in enumerate(KINDS, start=1) if code != GOOD]


def test_every_error_is_told_at_its_line(simulated: Platform) -> None:
    ended = simulated.wait(simulated.submit(FILE))

    assert ended.status == "failed"
    assert ended.errors is not None
    assert [(error.line, error.code) for error in ended.errors.data or []] == EXPECTED
    assert len({code for _, code in EXPECTED}) >= 8
    assert len(EXPECTED) >= 20
    extra = ended.model_extra or {}
    assert extra["errors_total"] == len(EXPECTED)
    whole = simulated.client.files.content(extra["errors_file_id"]).text
    assert [json.loads(line)["line"] for line in whole.splitlines()] == [line for line, _ in EXPECTED]


def test_record_runs_the_good_lines_and_tells_the_bad_ones_in_the_error_file(simulated: Platform) -> None:
    ended = simulated.wait(simulated.submit(FILE, extra_body={"on_invalid_line": "record"}))

    assert ended.status == "completed"
    records = list(simulated.records(ended))
    assert len(records) == len(FILE)
    errors = [record["error"] for record in records if record["error"]]
    assert [(error["line"], error["code"]) for error in errors] == EXPECTED
    answered = [record["custom_id"] for record in records if record["response"]]
    assert answered == ["first", "x" * 500, "last"]
