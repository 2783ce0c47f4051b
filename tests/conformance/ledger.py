"""The oracle's fairness accounts: virtual time as `lanes.account` rules it, without a database."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from uuid import UUID

from lanes.account import folded, lifted, risen

Key = tuple[UUID, UUID | None]  # (tenant, flow), None for the tenant itself


@dataclass(slots=True)
class Account:
    weight: float
    vtime: float = 0.0
    start: float = 0.0  # where it was last lifted to
    active: bool = False


@dataclass(slots=True)
class Ledger:
    accounts: dict[Key, Account] = field(default_factory=dict)
    deltas: list[tuple[UUID, UUID, float]] = field(default_factory=list)  # tenant, flow, cost
    floor: float = 0.0

    def activate(self, tenant: UUID, flow: UUID, weight: float) -> None:
        """Jobs of this flow were queued."""
        tenants = [a.vtime for (_, f), a in self.accounts.items() if f is None and a.active]
        flows = [a.vtime for (t, f), a in self.accounts.items() if t == tenant and f and a.active]
        self._activate((tenant, None), weight, self.floor, tenants)
        self._activate((tenant, flow), 1.0, 0.0, flows)

    def _activate(self, key: Key, weight: float, floor: float, others: list[float]) -> None:
        account = self.accounts.setdefault(key, Account(weight))
        if not account.active:
            account.weight = weight
            account.vtime = account.start = lifted(account.vtime, floor, others)
            account.active = True

    def end_flow(self, tenant: UUID, flow: UUID) -> None:
        """The flow will never have a job again; its tenant rests when it has no other."""
        del self.accounts[tenant, flow]
        if not any(t == tenant and f and a.active for (t, f), a in self.accounts.items()):
            own = self.accounts[tenant, None]
            own.active = False
            self.floor = max(self.floor, own.vtime)

    def charge(self, tenant: UUID, flow: UUID, cost: float) -> None:
        """A charge, or with a negative cost a refund, that the next fold adds."""
        self.deltas.append((tenant, flow, cost))

    def fold(self) -> None:
        """Under the turnstile: add what was charged, and let the floor rise."""
        sums: dict[Key, float] = defaultdict(float)
        for tenant, flow, cost in self.deltas:
            sums[tenant, None] += cost
            sums[tenant, flow] += cost
        self.deltas.clear()
        for key, delta in sums.items():
            account = self.accounts.get(key)  # a flow that ended has none
            if account is not None:
                account.vtime = folded(account.vtime, account.weight, delta, account.start)
        tenants = [a.vtime for (_, f), a in self.accounts.items() if f is None and a.active]
        self.floor = risen(self.floor, tenants)

    def vtimes(self) -> dict[Key, float]:
        """As they will be once everything is folded, save for what `folded` cuts."""
        found = {key: account.vtime for key, account in self.accounts.items()}
        for tenant, flow, cost in self.deltas:
            for key in ((tenant, None), (tenant, flow)):
                if key in found:
                    found[key] += cost / self.accounts[key].weight
        return found
