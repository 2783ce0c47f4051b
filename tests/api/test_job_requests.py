"""What POST /v1/jobs takes, and in which words it refuses the rest."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from fastapi.exceptions import RequestValidationError

from api.idempotency import LONGEST, idempotency_key, request_digest
from api.refusals import InvalidJson, InvalidValue
from api.schemas.job_create import job_request
from api.validation import refusal_of
from lanes.batch import Window
from lanes.policy import DEFAULT

CHAT: dict[str, Any] = {"endpoint": "/v1/chat/completions", "body": {"model": "m"}}


def sent(**fields: object) -> bytes:
    return json.dumps(CHAT | fields).encode()


def test_the_body_is_kept_as_it_was_written() -> None:
    body = '{ "model":"m",  "messages":[{"role":"user","content":"\\u00e9 é"}] }'
    read = job_request(f'{{"endpoint":"/v1/chat/completions","body":{body}}}'.encode(), DEFAULT)
    assert read.body == body.encode()
    assert read.wanted.body == json.loads(body)
    assert (read.wanted.lane, read.wanted.deadline, read.wanted.fairlane_priority) == (None, None, 0)


@pytest.mark.parametrize(
    ("deadline", "meant"),
    [
        ("15m", Window("15m", timedelta(minutes=15))),
        ("2030-01-31T12:00:00Z", datetime(2030, 1, 31, 12, tzinfo=UTC)),
        ("2030-01-31T14:00:00+02:00", datetime(2030, 1, 31, 12, tzinfo=UTC)),
    ],
)
def test_a_deadline_is_a_duration_or_a_time(deadline: str, meant: object) -> None:
    assert job_request(sent(deadline=deadline), DEFAULT).wanted.deadline == meant


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("endpoint", "/v1/nothing"),
        ("body", "text"),
        ("lane", "p3"),
        ("deadline", "soon"),
        ("deadline", "31d"),
        ("deadline", "2030-01-31T12:00:00"),
        ("deadline", 5),
        ("deadline", 'a"b'),
        ("timeout", 0),
        ("timeout", "5"),
        ("timeout", 31 * 86400),
        ("fairlane_priority", 9),
        ("fairlane_priority", True),
        ("custom_id", ""),
        ("custom_id", "é" * 257),
        ("custom_id", "a\0"),
        ("metadata", {"k": 1}),
        ("metadata", {str(n): "v" for n in range(17)}),
        ("prioritty", 1),
    ],
)
def test_a_wrong_field_is_named(field: str, value: object) -> None:
    with pytest.raises(RequestValidationError) as caught:
        job_request(sent(**{field: value}), DEFAULT)
    refusal = refusal_of(caught.value)
    assert refusal.param is not None
    assert refusal.param.split(".")[0] == field


def test_a_deadline_and_a_timeout_contradict_each_other() -> None:
    with pytest.raises(RequestValidationError) as caught:
        job_request(sent(deadline="15m", timeout=5), DEFAULT)
    refusal = refusal_of(caught.value)
    assert "not both" in refusal.message
    assert refusal.param == "deadline"


@pytest.mark.parametrize("raw", [b"", b"[]", b"{", b"\xff", b'{"a":1,"a":2}', b'{"a":NaN}'])
def test_what_is_no_json_object_is_refused(raw: bytes) -> None:
    with pytest.raises(InvalidJson):
        job_request(raw, DEFAULT)


@pytest.mark.parametrize(
    ("header", "key"),
    [
        (None, None),
        ("abc", "abc"),
        (' "abc" ', "abc"),
        ('"a b"', "a b"),
        (r'"a\"b\\"', 'a"b\\'),
        ("x" * LONGEST, "x" * LONGEST),
    ],
)
def test_a_key_is_quoted_or_bare(header: str | None, key: str | None) -> None:
    assert idempotency_key(header) == key


@pytest.mark.parametrize("header", ["", '""', '"', '"a', "a b", "é", "x" * (LONGEST + 1), '"a"b"', "a\x7f"])
def test_what_is_no_key_is_refused(header: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        idempotency_key(header)
    assert caught.value.param == "Idempotency-Key"


def test_two_requests_are_the_same_by_what_they_mean() -> None:
    one = request_digest({"a": 1, "b": {"c": [1, 2], "d": None}})
    assert one == request_digest({"b": {"d": None, "c": [1, 2]}, "a": 1})
    assert one != request_digest({"a": 1, "b": {"c": [2, 1], "d": None}})
