"""Rates and the time that is left."""

from __future__ import annotations

import pytest

from cli.pace import Pace, duration


def _seen(*looks: tuple[float, int, int]) -> Pace:
    pace = Pace()
    for look in looks:
        pace.look(*look)
    return pace


def test_nothing_is_claimed_before_two_changes_were_seen() -> None:
    pace = _seen((0, 0, 0), (1, 0, 0), (2, 5, 50))
    assert (pace.lines_per_s, pace.tokens_per_s, pace.remaining_s(100)) == (None, None, None)


def test_time_before_the_first_answer_does_not_count() -> None:
    loading = [(float(second), 0, 0) for second in range(40)]
    pace = _seen(*loading, (40, 10, 100), (45, 20, 200))
    assert pace.lines_per_s == 2.0
    assert pace.tokens_per_s == 20.0
    assert pace.remaining_s(100) == 40.0


def test_how_often_somebody_looks_changes_nothing_at_a_change() -> None:
    seldom = _seen((0, 0, 0), (5, 8, 80), (10, 16, 160))
    often = _seen((0, 0, 0), (5, 8, 80), *((5 + i / 10, 8, 80) for i in range(1, 50)), (10, 16, 160))
    assert often.lines_per_s == seldom.lines_per_s == 8 / 5


def test_a_halt_lowers_the_rate() -> None:
    pace = _seen((0, 0, 0), (1, 10, 0), (2, 20, 0), (11, 20, 0))
    assert pace.lines_per_s == 1.0
    assert pace.tokens_per_s is None  # no usage is known


def test_only_the_last_minute_counts() -> None:
    slow = [(float(second), second, second) for second in range(100)]
    fast = [(100.0 + second, 100 + 10 * second, 0) for second in range(100)]
    assert _seen(*slow, *fast).lines_per_s == pytest.approx(10, rel=0.01)


def test_a_batch_that_runs_already_is_no_progress() -> None:
    """What was done before the first look is not an achievement of the first second."""
    assert _seen((0, 500, 0), (1, 501, 0), (2, 502, 0)).lines_per_s == 1.0


def test_the_first_few_lines_foretell_nothing() -> None:
    """An engine that is full ends a few short ones early, and then all the others at once."""
    pace = _seen((0, 0, 0), (50, 1, 0), (60, 6, 0))
    assert pace.lines_per_s == 0.5
    assert pace.remaining_s(100) is None


def test_nothing_is_left_at_the_end() -> None:
    assert _seen((0, 0, 0), (1, 5, 0), (2, 10, 0)).remaining_s(10) == 0


@pytest.mark.parametrize(
    ("seconds", "said"), [(0.4, "0 s"), (59.4, "59 s"), (125, "2 min 5 s"), (7260, "2 h 1 min")]
)
def test_durations_have_two_units(seconds: float, said: str) -> None:
    assert duration(seconds) == said
