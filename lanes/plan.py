"""What a worker with free seats should claim: `plan(snapshot, policy) -> commands`.

Weighted virtual token counters on two levels: the tenant with the least virtual time goes first,
and inside it the flow with the least. Each planned job moves both by its expected cost over the
weight, so that one slice already shares fairly. Three things bend the order, each by a stated
amount: whoever has the turn keeps it for `quantum_cost`; flows that would miss their deadline go
first in their tenant, for `at_risk_share` of its seats; and a head job that does not fit into the
worker's free KV is overtaken until the others are `overtake_cost` ahead of it. Then the room
stays free until it fits, so that large jobs do not starve.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from uuid import UUID

from lanes.estimate import misses_deadline
from lanes.policy import Policy
from lanes.turns import Contender, Turns


@dataclass(frozen=True, slots=True)
class FlowAccount:
    """One active flow as the snapshot saw it; all of its jobs are planned like its head job."""

    tenant_id: UUID
    flow_id: UUID
    tenant_vtime: float
    tenant_weight: float
    flow_vtime: float
    head_cost: float  # expected, in cost units
    head_tokens: int = 0  # input and predicted output: what it may hold in the KV cache
    due_seconds: float = inf  # from now to the head job's deadline
    queued_jobs_left: int | None = None  # at most so many jobs are still to run; None: not known


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What a plan is made of.

    `draw` is a number in [0, 1) drawn by the caller: it rounds the share of the flows at risk, up or
    down, so that many claims of one seat keep to it together.
    """

    free_seats: int
    flows: Sequence[FlowAccount]
    cost_per_second: float = 0.0  # measured service rate of this model and lane; 0: not known
    token_budget: int | None = None  # tokens that the worker's free KV can hold; None: no bound
    idle: bool = False  # the worker runs nothing: its first job is taken whatever the budget says
    draw: float = 0.5


@dataclass(frozen=True, slots=True)
class Take:
    """Claim up to `jobs` jobs from the head of one flow."""

    tenant_id: UUID
    flow_id: UUID
    jobs: int


def plan(snapshot: Snapshot, policy: Policy) -> tuple[Take, ...]:
    """Share the free seats among the flows; the sum of `jobs` is at most the free seats.

    Its time grows with the flows of the snapshot only by grouping them; whoever gets no seat is not
    looked at more closely.
    """
    seats = min(snapshot.free_seats, policy.slice_jobs)
    if seats <= 0:
        return ()
    room = _Room(snapshot.token_budget, snapshot.idle)
    turns = Turns(_tenants(snapshot, policy), policy.quantum_cost)
    taken: dict[_Flow, int] = {}
    limit = inf  # virtual time up to which others may overtake a tenant whose jobs do not fit
    while seats and not room.full and (tenant := turns.next()) is not None:
        flow = tenant.choose(room) if tenant.vtime < limit else None
        if flow is None:
            tenant.out = True
            if tenant.blocked:
                limit = min(limit, tenant.vtime + policy.overtake_cost / tenant.weight)
            continue
        room.take(flow.tokens)
        tenant.charge(flow.cost)
        flow.take()
        taken[flow] = taken.get(flow, 0) + 1
        seats -= 1
    return tuple(Take(flow.tenant_id, flow.flow_id, jobs) for flow, jobs in taken.items())


def _tenants(snapshot: Snapshot, policy: Policy) -> list[_Tenant]:
    flows: dict[UUID, list[FlowAccount]] = {}
    for account in snapshot.flows:
        flows.setdefault(account.tenant_id, []).append(account)
    weights = sum(accounts[0].tenant_weight for accounts in flows.values())
    rate = snapshot.cost_per_second / weights if weights else 0.0
    return [_Tenant(accounts, rate, snapshot.draw, policy) for accounts in flows.values()]


class _Room:
    """The KV that the slice may fill."""

    def __init__(self, tokens: int | None, idle: bool) -> None:
        self._left = inf if tokens is None else tokens
        self._idle = idle

    @property
    def full(self) -> bool:
        return self._left <= 0 and not self._idle

    def fits(self, tokens: int) -> bool:
        return self._idle or tokens <= self._left

    def take(self, tokens: int) -> None:
        self._left -= tokens
        self._idle = False


class _Flow(Contender):
    """A flow in its tenant; flows of one tenant have equal weight."""

    __slots__ = ("cost", "flow_id", "left", "tenant_id", "tokens")

    def __init__(self, account: FlowAccount) -> None:
        super().__init__(account.flow_vtime, 1.0)
        self.tenant_id = account.tenant_id
        self.flow_id = account.flow_id
        self.cost = max(account.head_cost, 1.0)  # a free job would keep the turn for ever
        self.tokens = account.head_tokens
        self.left = inf if account.queued_jobs_left is None else max(1, account.queued_jobs_left)

    def take(self) -> None:
        self.charge(self.cost)
        self.left -= 1
        self.out = self.left <= 0


class _Tenant(Contender):
    """A tenant and the order among its flows, which is made when it first gets a turn."""

    __slots__ = (
        "_accounts", "_at_risk", "_draw", "_given", "_jumped", "_limit", "_policy", "_rate", "_turns",
        "blocked",
    )  # fmt: skip

    def __init__(self, accounts: list[FlowAccount], rate: float, draw: float, policy: Policy) -> None:
        super().__init__(accounts[0].tenant_vtime, accounts[0].tenant_weight)
        self._accounts = accounts
        self._rate = rate * self.weight  # cost per second that this tenant can count on
        self._draw = draw
        self._policy = policy
        self._turns: Turns[_Flow] | None = None
        self._at_risk: list[_Flow] = []  # the most urgent last
        self._given = self._jumped = 0
        self._limit = inf  # as in `plan`, among the flows
        self.blocked = False  # a flow of it has a turn and a job that does not fit

    def choose(self, room: _Room) -> _Flow | None:
        """The flow that gets the next seat of this tenant; None when nothing of it fits."""
        turns = self._turns or self._open()
        self._given += 1
        if self._jumped + 1 <= self._policy.at_risk_share * self._given + self._draw:
            urgent = self._most_urgent(room)
            if urgent is not None:
                self._jumped += 1
                return urgent
        while (flow := turns.next()) is not None:
            if flow.vtime < self._limit:
                if room.fits(flow.tokens):
                    return flow
                self.blocked = True
                self._limit = min(self._limit, flow.vtime + self._policy.overtake_cost)
            flow.out = True
        return None

    def _open(self) -> Turns[_Flow]:
        flows = [_Flow(account) for account in self._accounts]
        self._turns = Turns(flows, self._policy.quantum_cost)
        each = self._rate / len(flows)
        late = [
            (account.due_seconds, number)
            for number, account in enumerate(self._accounts)
            if misses_deadline(
                account.due_seconds, account.queued_jobs_left or 1, account.head_cost, each, self._policy
            )
        ]
        self._at_risk = [flows[number] for _, number in sorted(late, reverse=True)]
        return self._turns

    def _most_urgent(self, room: _Room) -> _Flow | None:
        while self._at_risk and self._at_risk[-1].out:
            self._at_risk.pop()
        if not self._at_risk:
            return None
        flow = self._at_risk[-1]
        return flow if flow.vtime < self._limit and room.fits(flow.tokens) else None
