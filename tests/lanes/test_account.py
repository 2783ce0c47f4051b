"""Virtual time: charges, settlements, and no credit from an absence."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanes.account import cost, folded, lifted, risen
from lanes.policy import DEFAULT

VTIME = st.floats(0, 1e9)


def test_a_request_costs_its_tokens() -> None:
    assert cost(100, 10, DEFAULT) == 100 * DEFAULT.input_cost + 10 * DEFAULT.output_cost


@given(VTIME, VTIME, st.lists(VTIME, max_size=5))
def test_whoever_comes_back_starts_no_lower_than_anybody(
    vtime: float, floor: float, others: list[float]
) -> None:
    start = lifted(vtime, floor, others)

    assert start >= floor
    assert start >= vtime
    assert not others or start >= min(others)
    assert start in {vtime, floor, *others}


@given(VTIME, st.lists(st.tuples(st.floats(0, 1e6), st.floats(0, 1)), max_size=20), st.floats(0.1, 16))
def test_whatever_is_reserved_too_much_comes_back(
    start: float, jobs: list[tuple[float, float]], weight: float
) -> None:
    vtime = start
    for reserved, _ in jobs:
        vtime = folded(vtime, weight, reserved, start)
    for reserved, used in jobs:
        vtime = folded(vtime, weight, (used - 1) * reserved, start)

    assert vtime == pytest.approx(start + sum(reserved * used for reserved, used in jobs) / weight)


def test_a_refund_from_before_an_absence_is_no_credit() -> None:
    vtime = folded(1000.0, 1.0, 500.0, 1000.0)  # a charge, then its queue is empty
    start = lifted(vtime, 0.0, [9000.0])  # others went on meanwhile
    assert start == 9000.0
    assert folded(start, 1.0, -500.0, start) == start
    assert folded(start, 1.0, 300.0, start) == 9300.0


@given(VTIME, st.lists(VTIME, max_size=5))
def test_the_floor_never_falls(floor: float, active: list[float]) -> None:
    assert risen(floor, active) == max(floor, min(active, default=0.0))
