"""What a worker with free seats should claim: `plan(snapshot, policy) -> commands`.

Weighted virtual token counters on two levels: the tenant with the least virtual time goes
first, and inside it the flow with the least. Each planned job moves both counters by its
expected cost over the weight, so that one slice already shares fairly.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from lanes.policy import Policy


@dataclass(frozen=True, slots=True)
class FlowAccount:
    """One active flow as the snapshot saw it."""

    tenant_id: UUID
    flow_id: UUID
    tenant_vtime: float
    tenant_weight: float
    flow_vtime: float


@dataclass(frozen=True, slots=True)
class Snapshot:
    free_seats: int
    flows: Sequence[FlowAccount]
    mean_cost: float  # expected cost of one job of this lane, in cost units


@dataclass(frozen=True, slots=True)
class Take:
    """Claim up to `jobs` jobs from the head of one flow."""

    tenant_id: UUID
    flow_id: UUID
    jobs: int


def cost(input_tokens: int, output_tokens: int, policy: Policy) -> float:
    """What a request costs its tenant, before the division by its weight."""
    return policy.input_cost * input_tokens + policy.output_cost * output_tokens


def plan(snapshot: Snapshot, policy: Policy) -> tuple[Take, ...]:
    """Share the free seats among the flows; the sum of `jobs` is at most the free seats."""
    seats = min(snapshot.free_seats, policy.slice_jobs)
    if seats <= 0 or not snapshot.flows:
        return ()
    flows: dict[UUID, list[tuple[float, UUID]]] = {}
    weights: dict[UUID, float] = {}
    tenants: dict[UUID, float] = {}
    for account in snapshot.flows:
        flows.setdefault(account.tenant_id, []).append((account.flow_vtime, account.flow_id))
        weights[account.tenant_id] = account.tenant_weight
        tenants[account.tenant_id] = account.tenant_vtime
    for heap in flows.values():
        heapq.heapify(heap)
    order = [(vtime, tenant) for tenant, vtime in tenants.items()]
    heapq.heapify(order)

    taken: Counter[tuple[UUID, UUID]] = Counter()
    step = max(snapshot.mean_cost, 1.0)
    for _ in range(seats):
        tenant_vtime, tenant = order[0]
        flow_vtime, flow = flows[tenant][0]
        taken[tenant, flow] += 1
        heapq.heapreplace(order, (tenant_vtime + step / weights[tenant], tenant))
        heapq.heapreplace(flows[tenant], (flow_vtime + step, flow))
    return tuple(Take(tenant, flow, jobs) for (tenant, flow), jobs in taken.items())
