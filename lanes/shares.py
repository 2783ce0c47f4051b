"""Which lane a worker with free seats claims from first, and with how many seats.

P0 before P1 before P2, save that P2 has a least share of the served cost while both wait, and that
a lane with work that got no seat for `age_seconds` goes next whatever the order says.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil

from lanes.lane import Lane
from lanes.lately import Lately
from lanes.policy import Policy


@dataclass(frozen=True, slots=True)
class LaneDemand:
    """A lane that has work, and what it was served lately.

    `unserved_seconds` counts from its last seat or, if later, from the moment its oldest job came:
    a lane with a long backlog that is served all the time does not age. `served` is charged at the claim
    and settled at the end, as accounts are; it counts only while P1 and P2 both have work and starts
    anew after that, else the share of P2 would become credit.
    """

    lane: Lane
    unserved_seconds: float = 0.0
    served: Lately = field(default_factory=Lately)


@dataclass(frozen=True, slots=True)
class LaneShare:
    lane: Lane
    seats: int


def shares(free_seats: int, demands: Sequence[LaneDemand], policy: Policy) -> tuple[LaneShare, ...]:
    """The claims to make, in order; each of at least one seat, together all the free seats.

    A lane that takes fewer jobs than its seats has no more work: ask again without it for the rest.
    """
    if free_seats <= 0:
        return ()
    seats: dict[Lane, int] = {}
    left = free_seats
    aged = [demand for demand in demands if demand.unserved_seconds > policy.age_seconds]
    for demand in sorted(aged, key=lambda demand: (-demand.unserved_seconds, demand.lane))[:left]:
        seats[demand.lane] = 1
        left -= 1
    by_lane = {demand.lane: demand for demand in demands}
    if Lane.INTERACTIVE not in by_lane and {Lane.STANDARD, Lane.BULK} <= by_lane.keys():
        owed = _owed_to_bulk(free_seats, by_lane[Lane.STANDARD].served, by_lane[Lane.BULK].served, policy)
        more = min(left, max(0, owed - seats.get(Lane.BULK, 0)))
        if more:
            seats[Lane.BULK] = seats.get(Lane.BULK, 0) + more
            left -= more
    if left and by_lane:
        first = min(by_lane)
        seats[first] = seats.get(first, 0) + left
    return tuple(LaneShare(lane, count) for lane, count in seats.items())


def _owed_to_bulk(free_seats: int, standard: Lately, bulk: Lately, policy: Policy) -> int:
    """Seats of P2 with which its share of the served cost is still met after these seats."""
    share = policy.p2_min_share
    each, other = bulk.mean_cost, standard.mean_cost
    if not each or not other:  # nothing known yet: as if jobs of both lanes cost the same
        each = other = each or other or 1.0
    lacks = share * (standard.cost + bulk.cost + free_seats * other) - bulk.cost
    return min(free_seats, max(0, ceil(lacks / ((1 - share) * each + share * other) - 1e-9)))
