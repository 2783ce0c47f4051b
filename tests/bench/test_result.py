"""How a bench's figures are made and judged."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.result import Bar, Result, percentile, spread_of


@pytest.mark.parametrize(("share", "value"), [(0.5, 50), (0.95, 95), (0.99, 99), (1.0, 100), (0.001, 1)])
def test_percentiles_of_a_hundred(share: float, value: int) -> None:
    assert percentile(range(100, 0, -1), share) == value


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1), st.floats(0.01, 1))
def test_a_percentile_is_the_least_value_that_covers_its_share(values: list[float], share: float) -> None:
    found = percentile(values, share)
    assert found in values
    assert sum(value <= found for value in values) >= share * len(values) - 1e-6
    assert sum(value < found for value in values) < share * len(values) + 1e-6


def test_a_bar_knows_which_side_is_better() -> None:
    assert Bar(0.9, 0.95).met_by(0.9)
    assert not Bar(0.9, 0.95).met_by(0.89)
    assert Bar(4, 2, less_is_better=True).met_by(4)
    assert not Bar(4, 2, less_is_better=True).met_by(4.01)


def test_the_last_line_is_one_json_object_with_the_keys_at_its_top() -> None:
    line = Result("x", {"ratio": 1.5}, {"s": spread_of([3.0, 1.0])}, {"seed": 7}).as_json({"cores": 2})
    assert "\n" not in line
    found = json.loads(line)
    assert (found["bench"], found["ratio"]) == ("x", 1.5)
    assert found["spread"]["s"] == {"n": 2, "min": 1.0, "median": 2.0, "max": 3.0}
    assert found["facts"] == {"cores": 2, "seed": 7}
