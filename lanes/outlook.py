"""When a request would start and end, by the work queued before it and how fast that is served."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Load:
    """What stands before a new request in one lane of a model. Costs are in the policy's cost units."""

    ahead_cost: float = 0.0  # queued in its own flow, to run before it
    flows_cost: float = 0.0  # queued in this lane by the tenant's other flows,
    flows: int = 0  # of which so many have work
    lane_cost: float = 0.0  # queued by everybody in this lane
    queued_jobs: int = 0  # in this lane
    oldest_seconds: float = 0.0  # how long the oldest of them has waited
    weight: float = 1.0  # the tenant's
    active_weights: float = 1.0  # of all tenants with work here, this one included
    cost_per_second: float = 0.0  # measured service rate of the lane; 0: not known
    seat_cost_per_second: float = 0.0  # with which one running job advances; 0: not known
    replicas_ready: int = 1


@dataclass(frozen=True, slots=True)
class Outlook:
    """Seconds from now. They are what is expected, without a margin."""

    start_seconds: float
    finish_seconds: float


def outlook(own_cost: float, load: Load) -> Outlook | None:
    """When a request of that cost would start and end; None where no rate is known.

    A tenant gets its share of the lane by weight, and never waits for more than all that is queued:
    whatever the others leave, it has too. Inside a tenant the flows share alike, by the same rule.
    """
    if load.cost_per_second <= 0:
        return None
    share = min(1.0, load.weight / max(load.active_weights, load.weight))
    mine = load.ahead_cost + min(load.ahead_cost * load.flows, load.flows_cost)
    everybody = max(load.lane_cost, mine)
    ahead = min(mine / share, everybody)
    start = ahead / load.cost_per_second
    speed = load.seat_cost_per_second or load.cost_per_second
    return Outlook(start, start + own_cost / speed)
