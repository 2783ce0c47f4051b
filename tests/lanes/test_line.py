from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanes.batch import Window
from lanes.jsonl import Line
from lanes.line import LineError, LineRules, ValidLine, check_line
from lanes.policy import DEFAULT
from lanes.prefix import prefix_group

CHAT = "/v1/chat/completions"
RULES = LineRules(CHAT, frozenset({"toy"}), Window("1h", timedelta(hours=1)), DEFAULT)
GOOD: dict[str, Any] = {
    "custom_id": "a",
    "method": "POST",
    "url": CHAT,
    "body": {"model": "toy", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 7},
}
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


def check(value: Any) -> ValidLine | LineError:
    return check_line(Line(5, json.dumps(value).encode()), RULES)


def test_a_good_line_with_fields_of_its_own() -> None:
    line = check(GOOD | {"comment": "x"})
    prefix = prefix_group(GOOD["body"], DEFAULT)
    assert line == ValidLine(5, "a", "toy", json.dumps(GOOD["body"]).encode(), 7, 1, prefix, None, 0)


@given(st.sampled_from([*sorted(GOOD), "fairlane_deadline", "fairlane_priority"]), ANYTHING)
def test_no_value_of_any_field_breaks_the_check(name: str, value: Any) -> None:
    line = check(GOOD | {name: value})
    if isinstance(line, LineError):
        assert line.line == 5
        assert line.param is None or line.param.partition(".")[0] == name
    else:
        assert name == "custom_id" or value in (GOOD.get(name), line.rank)


@given(
    st.sampled_from(["model", "messages", "n", "max_tokens", "stop", "stream", "chat_template_kwargs",
                     "response_format", "structured_outputs", "echo", "priority"]),
    ANYTHING,
)  # fmt: skip
def test_no_value_of_any_body_field_breaks_the_check(name: str, value: Any) -> None:
    line = check(GOOD | {"body": GOOD["body"] | {name: value}})
    assert line.line == 5
    if isinstance(line, LineError):
        assert line.param is None or line.param.startswith(f"body.{name}")


@given(st.binary(max_size=40))
def test_no_bytes_break_the_check(data: bytes) -> None:
    assert isinstance(check_line(Line(1, data), RULES), LineError)


@pytest.mark.parametrize("custom_id", ["x", "x" * 512, "\u00e9" * 256, " ", "a\nb"])
def test_custom_ids_that_pass(custom_id: str) -> None:
    line = check(GOOD | {"custom_id": custom_id})
    assert isinstance(line, ValidLine)
    assert line.custom_id == custom_id


@pytest.mark.parametrize("custom_id", ["", "x" * 513, "\u00e9" * 257, "a\0b", 7, ["a"], True])
def test_custom_ids_that_do_not(custom_id: Any) -> None:
    line = check(GOOD | {"custom_id": custom_id})
    assert isinstance(line, LineError)
    assert (line.code, line.param, line.custom_id) == ("invalid_request", "custom_id", None)


def test_an_error_keeps_the_custom_id_that_could_be_read() -> None:
    line = check(GOOD | {"method": "GET"})
    assert isinstance(line, LineError)
    assert line.custom_id == "a"


def test_a_line_that_was_dropped_for_its_length() -> None:
    line = check_line(Line(9, None), RULES)
    assert line == LineError(9, "line_too_long", "The line is longer than 32 MiB. Shorten it.", None)


@pytest.mark.parametrize(
    ("deadline", "seconds"), [("90s", 90), ("15m", 900), ("60m", 3600), ("1h", 3600), (None, None)]
)
def test_deadlines_that_pass(deadline: str | None, seconds: int | None) -> None:
    line = check(GOOD | {"fairlane_deadline": deadline})
    assert isinstance(line, ValidLine)
    assert line.deadline_seconds == seconds


@pytest.mark.parametrize(
    "deadline", ["61m", "2h", "soon", "15", "0s", "1.5h", "", " 1m", 900, True, ["1m"], {}]
)
def test_deadlines_that_do_not(deadline: Any) -> None:
    line = check(GOOD | {"fairlane_deadline": deadline})
    assert line == LineError(
        5,
        "invalid_request",
        'fairlane_deadline must be a whole number and one of s, m, h, d, such as "15m", and at most the'
        " batch's completion window, 1h.",
        "fairlane_deadline",
        "a",
    )


@pytest.mark.parametrize(("priority", "rank"), [(-8, -8), (0, 0), (8, 8), (None, 0)])
def test_priorities_that_pass(priority: int | None, rank: int) -> None:
    line = check(GOOD | {"fairlane_priority": priority})
    assert isinstance(line, ValidLine)
    assert line.rank == rank


@pytest.mark.parametrize("priority", [-9, 9, 1.0, "1", True, [1], 10**30])
def test_priorities_that_do_not(priority: Any) -> None:
    line = check(GOOD | {"fairlane_priority": priority})
    assert line == LineError(
        5,
        "invalid_request",
        "fairlane_priority must be a whole number from -8 to 8; a lower one runs first.",
        "fairlane_priority",
        "a",
    )


@pytest.mark.parametrize(("name", "value"), [("fairlane_deadline", "15m"), ("fairlane_priority", 1)])
def test_what_is_for_the_queue_is_refused_inside_the_body(name: str, value: Any) -> None:
    line = check(GOOD | {"body": GOOD["body"] | {name: value}})
    assert isinstance(line, LineError)
    assert (line.code, line.param) == ("unsupported_parameter", f"body.{name}")
    assert "beside custom_id, not inside body" in line.message


def test_a_misspelt_wish_is_not_passed_over() -> None:
    line = check(GOOD | {"fairlane_dead_line": "15m"})
    assert isinstance(line, LineError)
    assert line.code == "unsupported_parameter"
    assert "fairlane_deadline" in line.message
    assert "dead_line" not in line.message, "no input is repeated"
