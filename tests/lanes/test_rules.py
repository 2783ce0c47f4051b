"""The small rules: transitions, retries, windows, ids and records."""

from __future__ import annotations

import json
from datetime import timedelta
from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanes import failure, record, transitions
from lanes.batch import NEXT, BatchStatus, Window, completion_window
from lanes.ids import Prefix, parse, spell
from lanes.job import LEASED, TERMINAL, JobState
from lanes.policy import DEFAULT
from lanes.retry import retry_after


@pytest.mark.parametrize("state", sorted(TERMINAL))
def test_terminal_is_final(state: JobState) -> None:
    assert transitions.allowed(state) == ()
    assert state.is_terminal


def test_every_state_is_reached_and_every_live_one_can_be_left() -> None:
    assert {t.target for t in transitions.TABLE} == set(JobState)
    assert all(transitions.allowed(state) for state in JobState if not state.is_terminal)


def test_a_lease_is_made_and_lost_only_with_a_new_fence() -> None:
    for transition in transitions.TABLE:
        from_lease = transition.sources <= LEASED
        changes_holder = transition.target is JobState.RUNNING or (
            from_lease and transition.target is JobState.QUEUED
        )
        assert transition.raises_fence == changes_holder, transition.name


def test_batch_statuses_lead_to_an_end() -> None:
    ends = {status for status in BatchStatus if status.is_terminal}
    assert ends == {"failed", "completed", "expired", "cancelled"}
    seen = {BatchStatus.VALIDATING}
    for _ in BatchStatus:
        seen |= {following for status in seen for following in NEXT[status]}
    assert seen == set(BatchStatus)


@given(st.integers(1, 10), st.floats(0, 0.999), st.floats(0, 1e5))
def test_a_retry_is_within_attempts_and_deadline(attempts: int, jitter: float, remaining: float) -> None:
    wait = retry_after(failure.ENGINE_ERROR, attempts, remaining, jitter, DEFAULT)

    if attempts >= DEFAULT.attempts:
        assert wait is None
    elif wait is None:
        assert remaining <= DEFAULT.backoff_limit_seconds
    else:
        assert 0 < wait < remaining
        assert wait <= DEFAULT.backoff_limit_seconds


def test_what_is_nobodys_fault_is_tried_at_once_however_often() -> None:
    assert retry_after(failure.ENGINE_LOST, 99, 10.0, 0.5, DEFAULT) == 0.0
    assert retry_after(failure.EXPIRED, 1, 10.0, 0.5, DEFAULT) is None


@pytest.mark.parametrize(
    ("text", "window"),
    [
        ("24h", timedelta(days=1)), ("90s", timedelta(seconds=90)), ("15m", timedelta(minutes=15)),
        ("30d", timedelta(days=30)), ("31d", None), ("0h", None), ("24", None), ("1.5h", None), ("-1h", None),
        ("1h ", None), ("", None), ("999999999999h", None), ("٣h", None),
    ],
)  # fmt: skip
def test_completion_windows(text: str, window: timedelta | None) -> None:
    assert completion_window(text) == (window and Window(text, window))


@given(st.uuids(), st.sampled_from(Prefix))
def test_ids_are_read_as_they_are_spelled_and_only_so(uuid: UUID, prefix: Prefix) -> None:
    assert parse(prefix, spell(prefix, uuid)) == uuid
    for other in set(Prefix) - {prefix}:
        assert parse(other, spell(prefix, uuid)) is None


@pytest.mark.parametrize("text", ["file-", "file-xyz", "file-" + "0" * 33, "file-" + "A" * 32, "0" * 32, ""])
def test_what_is_no_id_is_none(text: str) -> None:
    assert parse(Prefix.FILE, text) is None


@given(st.text(), st.binary())
def test_a_record_is_one_line_of_json(custom_id: str, raw: bytes) -> None:
    body = json.dumps({"text": raw.decode("latin-1")}, indent=1).encode()

    line = record.answered(uuid4(), custom_id, 200, body)

    assert line.count(b"\n") == 1
    assert line.endswith(b"\n")
    read = json.loads(line)
    assert (read["custom_id"], read["response"]["status_code"], read["error"]) == (custom_id, 200, None)
    assert read["response"]["body"] == json.loads(body)


def test_a_record_without_an_answer_says_why() -> None:
    ours = json.loads(record.unanswered(uuid4(), "a", "batch_expired", None))
    assert ours["response"] is None
    assert ours["error"]["code"] == "batch_expired"
    assert "completion window" in ours["error"]["message"]
    stored = json.loads(record.unanswered(uuid4(), None, "x", b'{"code": "x", "line": 3}'))
    assert stored["error"] == {"code": "x", "line": 3}
