"""Virtual time: what a tenant, or a flow inside it, was served, over its weight.

The database writes the same rules in SQL; the simulator calls these. They are the weighted virtual
token counters of arXiv 2401.00588, with charges reserved at the claim and settled at the end.
"""

from __future__ import annotations

from collections.abc import Iterable

from lanes.policy import Policy


def cost(input_tokens: int, output_tokens: int, policy: Policy) -> float:
    """What a request costs its tenant, before the division by its weight."""
    return policy.input_cost * input_tokens + policy.output_cost * output_tokens


def lifted(vtime: float, floor: float, others: Iterable[float]) -> float:
    """Where an account starts that had nothing queued: it brings no credit from its absence.

    Args:
        floor: what the lane had reached before it fell idle.
        others: what those with jobs queued or running were served: their virtual times without what
            is reserved for running jobs. With it, everybody who comes would stand back until all
            that is reserved too much has been settled.
    """
    return max(vtime, floor, min(others, default=floor))


def folded(vtime: float, weight: float, delta: float, start: float) -> float:
    """The virtual time after a charge (positive) or a settlement (of either sign).

    It never falls below `start`, where the account was last lifted to. What was used since then is
    no less than nothing, so only a refund of a charge from before the lift is cut, which would be
    credit from an absence; whoever reserves too much gets all of it back.
    """
    return max(start, vtime + delta / weight)


def risen(floor: float, active: Iterable[float]) -> float:
    """The lane's floor: the least that an active one was served, and it never falls."""
    return max(floor, min(active, default=floor))
