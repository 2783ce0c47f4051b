"""How a bench's figures are made and judged."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.quantiles import quantile
from bench.result import Bar, Result, spread_of


@pytest.mark.parametrize("share", [0.0, 0.001, 0.5, 0.95, 0.99, 1.0])
def test_quantiles_of_an_even_series_lie_on_its_line(share: float) -> None:
    assert quantile(range(100, -1, -1), share) == pytest.approx(100 * share)


@given(st.lists(st.floats(-1e9, 1e9), min_size=1), st.floats(0, 1))
def test_a_quantile_has_its_share_of_the_values_on_either_side(values: list[float], share: float) -> None:
    found = quantile(values, share)
    assert sum(value <= found + 1e-3 for value in values) >= share * (len(values) - 1)
    assert sum(value >= found - 1e-3 for value in values) >= (1 - share) * (len(values) - 1)


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
