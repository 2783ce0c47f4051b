"""Which lane is asked for how many jobs."""

from __future__ import annotations

from dataclasses import replace
from math import inf

from hypothesis import given
from hypothesis import strategies as st

from lanes.lane import Lane
from lanes.lately import Lately
from lanes.policy import DEFAULT
from lanes.shares import LaneDemand, LaneShare, shares

P0, P1, P2 = Lane.INTERACTIVE, Lane.STANDARD, Lane.BULK


@st.composite
def demands(draw: st.DrawFn) -> list[LaneDemand]:
    return [
        LaneDemand(
            lane,
            draw(st.floats(0, 1000)),
            Lately(draw(st.floats(0, 1e6)), draw(st.integers(0, 100)), draw(st.floats(0, 100))),
        )
        for lane in draw(st.sets(st.sampled_from(Lane)))
    ]


@given(st.integers(-1, 100), demands())
def test_all_free_seats_are_offered_once(free: int, wanting: list[LaneDemand]) -> None:
    offered = shares(free, wanting, DEFAULT)

    assert sum(share.seats for share in offered) == (max(0, free) if wanting else 0)
    assert all(share.seats > 0 for share in offered)
    assert len({share.lane for share in offered}) == len(offered)
    assert {share.lane for share in offered} <= {demand.lane for demand in wanting}


def test_the_lower_lane_goes_first() -> None:
    no_share = replace(DEFAULT, p2_min_share=0.0)
    wanting = [LaneDemand(P2), LaneDemand(P1)]

    assert shares(8, wanting, no_share) == (LaneShare(P1, 8),)
    assert shares(8, [*wanting, LaneDemand(P0)], DEFAULT) == (LaneShare(P0, 8),)
    assert shares(8, [LaneDemand(P2)], DEFAULT) == (LaneShare(P2, 8),)


def test_p2_goes_first_for_what_it_lacks() -> None:
    def offered(p1: Lately, p2: Lately) -> tuple[LaneShare, ...]:
        return shares(20, [LaneDemand(P1, served=p1), LaneDemand(P2, served=p2)], DEFAULT)

    # nothing known: a tenth of the seats
    assert offered(Lately(), Lately()) == (LaneShare(P2, 2), LaneShare(P1, 18))
    # it had a tenth of 10,000 and 20 jobs of 100 are to come: two of them
    assert offered(Lately(9_000, 90), Lately(1_000, 10)) == (LaneShare(P2, 2), LaneShare(P1, 18))
    # ten times smaller jobs: more seats for the same cost
    assert offered(Lately(9_000, 90), Lately(1_000, 100)) == (LaneShare(P2, 11), LaneShare(P1, 9))
    # it had more than its share
    assert offered(Lately(5_000, 50), Lately(5_000, 50)) == (LaneShare(P1, 20),)


def test_a_lane_that_got_nothing_for_long_gets_the_next_seat() -> None:
    aged = LaneDemand(P2, DEFAULT.age_seconds + 1)

    assert shares(8, [LaneDemand(P0), aged], DEFAULT) == (LaneShare(P2, 1), LaneShare(P0, 7))
    assert shares(1, [LaneDemand(P0), aged], DEFAULT) == (LaneShare(P2, 1),)
    assert shares(1, [LaneDemand(P0), aged], replace(DEFAULT, age_seconds=inf)) == (LaneShare(P0, 1),)
    # the one that waited longest before the other
    older = LaneDemand(P1, DEFAULT.age_seconds + 2)
    assert shares(1, [LaneDemand(P0), aged, older], DEFAULT) == (LaneShare(P1, 1),)


@given(st.lists(st.tuples(st.floats(0, 10), st.floats(0, 1e4)), min_size=1, max_size=50))
def test_what_was_served_lately_halves_and_never_grows_by_itself(spans: list[tuple[float, float]]) -> None:
    lately = Lately()
    for seconds, cost in spans:
        lately = lately.after(seconds, cost, 1, half_life=5.0)
    later = lately.after(5.0, 0.0, 0, half_life=5.0)

    assert abs(later.cost - lately.cost / 2) < 1e-6 * (1 + lately.cost)
    assert lately.cost <= sum(cost for _, cost in spans) + 1e-6


def test_the_rate_is_what_was_served_over_its_time() -> None:
    lately = Lately()
    assert (lately.cost_per_second, lately.mean_cost) == (0.0, 0.0)
    for _ in range(100):
        lately = lately.after(2.0, 300.0, 3, half_life=30.0)

    assert abs(lately.cost_per_second - 150.0) < 1e-9
    assert abs(lately.mean_cost - 100.0) < 1e-9
