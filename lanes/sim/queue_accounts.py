"""The accounts of one lane in memory, under the rules of `lanes.account`."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass, field
from uuid import UUID

from lanes.account import folded, lifted, risen
from lanes.policy import Policy


@dataclass(slots=True, eq=False)
class SimAccount:
    """A tenant or a flow. It is active while it has jobs queued or running."""

    id: UUID
    weight: float = 1.0
    vtime: float = 0.0
    start: float = 0.0
    reserved: float = 0.0  # cost of its running jobs
    queued: int = 0  # claimable
    live: int = 0  # queued in any way, or running
    floor: float = 0.0  # of its flows
    flows: dict[UUID, SimAccount] = field(default_factory=dict)

    @property
    def served(self) -> float:
        return self.vtime - self.reserved / self.weight

    def lift(self, floor: float, others: Iterable[SimAccount]) -> None:
        served = (other.served for other in others if other.live and other is not self)
        self.vtime = self.start = lifted(self.vtime, floor, served)


class LaneAccounts:
    """Every change is folded at once; the database does so before it looks."""

    def __init__(self, weights: dict[UUID, float], policy: Policy) -> None:
        self._weights = weights
        self._policy = policy
        self._tenants: dict[UUID, SimAccount] = {}
        self._floor = 0.0

    def of(self, tenant_id: UUID, flow_id: UUID) -> tuple[SimAccount, SimAccount]:
        tenant = self._tenants.get(tenant_id)
        if tenant is None:
            tenant = self._tenants[tenant_id] = SimAccount(tenant_id, self._weights.get(tenant_id, 1.0))
        return tenant, tenant.flows.setdefault(flow_id, SimAccount(flow_id))

    def came(self, tenant_id: UUID, flow_id: UUID) -> None:
        """A new job; whoever had none queued is lifted before it counts."""
        tenant, flow = self.of(tenant_id, flow_id)
        if not tenant.queued:
            tenant.lift(self._floor, self._tenants.values())
        if not flow.queued:
            flow.lift(tenant.floor, tenant.flows.values())
        tenant.live += 1
        flow.live += 1

    def left(self, tenant_id: UUID, flow_id: UUID) -> None:
        """A job ended."""
        for account in self.of(tenant_id, flow_id):
            account.live -= 1

    def claimable(self, tenant_id: UUID, flow_id: UUID, change: int) -> None:
        for account in self.of(tenant_id, flow_id):
            account.queued += change

    def charge(self, tenant_id: UUID, flow_id: UUID, cost: float) -> None:
        for account in self.of(tenant_id, flow_id):
            account.vtime = folded(account.vtime, account.weight, cost, account.start)
            account.reserved += cost

    def settle(self, tenant_id: UUID, flow_id: UUID, charged: float, used: float) -> None:
        for account in self.of(tenant_id, flow_id):
            account.vtime = folded(account.vtime, account.weight, used - charged, account.start)
            account.reserved -= charged

    def least(self, count: int) -> list[tuple[SimAccount, SimAccount]]:
        """Up to `count` tenants with claimable jobs, least first, each with as many flows."""
        self._floor = risen(self._floor, (t.served for t in self._tenants.values() if t.live))
        pairs = []
        for tenant in _least(self._tenants.values(), count):
            tenant.floor = risen(tenant.floor, (f.served for f in tenant.flows.values() if f.live))
            pairs += [(tenant, flow) for flow in _least(tenant.flows.values(), count)]
        return pairs


def _least(accounts: Iterable[SimAccount], count: int) -> list[SimAccount]:
    waiting = ((account.vtime, number, account) for number, account in enumerate(accounts) if account.queued)
    return [account for _, _, account in heapq.nsmallest(count, waiting)]
