"""The cap on bulk falls on late first tokens, comes back slowly, and stays within its bounds."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lanes.aimd import BulkCap, CapKnobs

KNOBS = CapKnobs(target_ttft_ms=100.0, decrease=0.5, hold_seconds=2.0, quiet_seconds=5.0, least=2)


def test_a_late_first_token_halves_the_cap_once_per_hold() -> None:
    cap = BulkCap.of(64).after_ttft(101.0, 10.0, KNOBS)
    assert cap.limit == 32
    assert cap.after_ttft(500.0, 11.9, KNOBS).limit == 32
    assert cap.after_ttft(500.0, 12.0, KNOBS).limit == 16


def test_each_good_first_token_lets_one_more_in() -> None:
    cap = BulkCap(64, 10.0).after_ttft(100.0, 0.0, KNOBS).after_ttft(5.0, 0.1, KNOBS)
    assert cap.limit == 12


def test_without_p0_each_bulk_that_ends_lets_one_more_in() -> None:
    cap = BulkCap(64, 10.0).after_ttft(50.0, 0.0, KNOBS)
    assert cap.after_bulk(4.9, KNOBS).limit == 11
    assert cap.after_bulk(5.0, KNOBS).limit == 12


@given(st.lists(st.tuples(st.booleans(), st.floats(0, 1000)), max_size=200), st.integers(2, 64))
def test_the_cap_stays_between_the_least_and_all_seats(events: list[tuple[bool, float]], seats: int) -> None:
    cap = BulkCap.of(seats)
    for now, (ttft, value) in enumerate(events):
        cap = cap.after_ttft(value, float(now), KNOBS) if ttft else cap.after_bulk(float(now), KNOBS)
        assert KNOBS.least <= cap.limit <= seats
