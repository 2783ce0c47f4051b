"""What is said of a batch, and the exit code of its end."""

from __future__ import annotations

from typing import Any

import pytest
from openai.types import Batch

from cli.pace import Pace
from cli.show import plain
from cli.standing import errors_total, exit_code, has_ended, standing, summary
from lanes.batch import BatchStatus


def _batch(status: str, completed: int = 0, failed: int = 0, total: int = 0, **more: Any) -> Batch:
    return Batch.model_validate(
        {
            "id": "batch_1",
            "object": "batch",
            "endpoint": "/v1/chat/completions",
            "input_file_id": "file-1",
            "completion_window": "24h",
            "status": status,
            "created_at": 100,
            "request_counts": {"completed": completed, "failed": failed, "total": total},
            **more,
        }
    )


@pytest.mark.parametrize(
    ("batch", "code"),
    [
        (_batch("completed", 3, 0, 3), 0),
        (_batch("completed", 2, 1, 3), 1),
        (_batch("completed", 0, 3, 3), 1),
        (_batch("expired", 3, 0, 3), 1),
        (_batch("cancelled", 3, 0, 3), 1),
        (_batch("failed"), 2),
    ],
)
def test_each_end_has_its_exit_code(batch: Batch, code: int) -> None:
    assert has_ended(batch)
    assert exit_code(batch) == code


def test_every_status_is_known_as_ended_or_not() -> None:
    ended = {status for status in BatchStatus if has_ended(_batch(status))}
    assert ended == {"completed", "failed", "expired", "cancelled"}


def test_standing_tells_rate_and_time_left() -> None:
    pace = Pace()
    for at_s, done, tokens in [(0, 0, 0), (1, 10, 100), (3, 20, 200)]:
        pace.look(at_s, done, tokens)
    said = standing(_batch("in_progress", 18, 2, 100), pace)
    assert said == "20 of 100 lines, 2 failed, 5.0 lines/s, 50 tokens/s, about 16 s left"


def test_a_refused_file_tells_the_true_number_of_bad_lines() -> None:
    errors = {"object": "list", "data": [{"code": "c", "message": "m", "param": None, "line": 3}]}
    refused = _batch("failed", errors=errors, errors_total=1500)
    assert errors_total(refused) == 1500
    assert "1500 bad lines" in summary(refused)
    assert errors_total(_batch("failed", errors=errors)) == 1  # a server without the extension


def test_the_summary_names_the_commands_that_have_something_to_show() -> None:
    ended = _batch("completed", 3, 0, 3, output_file_id="file-2", completed_at=161)
    assert summary(ended) == (
        "batch_1 completed: 3 of 3 lines succeeded, 0 failed, 1 min 1 s; see `fairlane batch results batch_1`"
    )
    assert "batch errors" in summary(_batch("completed", 0, 3, 3, error_file_id="file-3"))


def test_shown_text_cannot_steer_a_terminal() -> None:
    assert plain("a\x1b[31m\nb\u2028c\td") == "a [31m b c d"
    assert plain("abcdef", 4) == "abc…"
