"""Halving: one culprit is found in the logarithm of its company."""

from __future__ import annotations

from math import ceil, log2

from hypothesis import given
from hypothesis import strategies as st

from lanes.suspects import halves


@given(st.lists(st.integers(), max_size=300))
def test_halves_keep_everybody_once_and_are_even(held: list[int]) -> None:
    groups = halves(held)

    if len(held) < 2:
        assert groups == ()
    else:
        assert [each for group in groups for each in group] == held
        assert abs(len(groups[0]) - len(groups[1])) <= 1


@given(st.integers(1, 1000), st.data())
def test_the_culprit_is_alone_after_the_logarithm(company: int, data: st.DataObject) -> None:
    culprit = data.draw(st.integers(0, company - 1))
    held: tuple[int, ...] = tuple(range(company))
    deaths = 1
    while len(held) > 1:
        held = next(group for group in halves(held) if culprit in group)
        deaths += 1

    assert held == (culprit,)
    assert deaths <= ceil(log2(company)) + 1
