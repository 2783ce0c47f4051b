"""The oracle's fairness accounts: virtual time as `lanes.account` rules it, without a database."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from uuid import UUID

from lanes.account import folded, lifted, risen

Delta = tuple[UUID, UUID, float, float]  # tenant, flow, cost, and by how much what is reserved changes
Key = tuple[UUID, UUID | None]  # (tenant, flow), None for the tenant itself


@dataclass(slots=True)
class Account:
    weight: float
    vtime: float = 0.0
    start: float = 0.0  # where it was last lifted to
    reserved: float = 0.0  # cost of its running jobs
    active: bool = False

    @property
    def served(self) -> float:
        return self.vtime - self.reserved / self.weight


@dataclass(slots=True)
class Ledger:
    accounts: dict[Key, Account] = field(default_factory=dict)
    deltas: list[Delta] = field(default_factory=list)
    floor: float = 0.0

    def activate(self, tenant: UUID, flow: UUID, weight: float, *, waits: bool) -> None:
        """Jobs of this flow were queued; `waits`: so were jobs of another flow of the tenant before."""
        active = [(key, account.served) for key, account in self.accounts.items() if account.active]
        tenants = [served for (t, f), served in active if f is None and t != tenant]
        flows = [served for (t, f), served in active if t == tenant and f and f != flow]
        self._activate((tenant, None), weight, self.floor, tenants, lift=not waits)
        self._activate((tenant, flow), 1.0, 0.0, flows, lift=False)

    def _activate(self, key: Key, weight: float, floor: float, others: list[float], *, lift: bool) -> None:
        account = self.accounts.setdefault(key, Account(weight))
        if lift or not account.active:
            account.weight = weight
            account.vtime = account.start = lifted(account.vtime, floor, others)
            account.active = True

    def end_flow(self, tenant: UUID, flow: UUID) -> None:
        """The flow will never have a job again; its tenant rests when it has no other."""
        del self.accounts[tenant, flow]
        if not any(t == tenant and f and a.active for (t, f), a in self.accounts.items()):
            own = self.accounts[tenant, None]
            own.active = False
            self.floor = max(self.floor, own.served)

    def charge(self, tenant: UUID, flow: UUID, cost: float, reserved: float) -> None:
        """A charge, or with a negative cost a refund, that the next fold adds.

        `reserved` is by how much the reserved cost changes.
        """
        self.deltas.append((tenant, flow, cost, reserved))

    def fold(self) -> None:
        """Under the turnstile: add what was charged, and let the floor rise."""
        sums: dict[Key, list[float]] = defaultdict(lambda: [0.0, 0.0])
        for tenant, flow, cost, reserved in self.deltas:
            for name in (None, flow):
                sums[tenant, name][0] += cost
                sums[tenant, name][1] += reserved
        self.deltas.clear()
        for key, (cost, reserved) in sums.items():
            account = self.accounts.get(key)  # a flow that ended has none
            if account is not None:
                account.vtime = folded(account.vtime, account.weight, cost, account.start)
                account.reserved = max(0.0, account.reserved + reserved)
        tenants = [a.served for (_, f), a in self.accounts.items() if f is None and a.active]
        self.floor = risen(self.floor, tenants)

    def vtimes(self) -> dict[Key, float]:
        """As they will be once everything is folded, save for what `folded` cuts."""
        found = {key: account.vtime for key, account in self.accounts.items()}
        for tenant, flow, cost, _ in self.deltas:
            for key in ((tenant, None), (tenant, flow)):
                if key in found:
                    found[key] += cost / self.accounts[key].weight
        return found
