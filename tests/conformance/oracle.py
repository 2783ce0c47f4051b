"""The queue in memory: what PostgreSQL has to do, in the fewest words.

Every move of a job is a transition of `lanes.transitions`, every choice is `lanes.plan`'s, and
virtual time is the ledger's. `happened` counts the transitions that moved a job.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from lanes import transitions
from lanes.account import cost
from lanes.batch import BatchStatus
from lanes.failure import Failure
from lanes.job import LEASED, JobState
from lanes.plan import FlowAccount, Snapshot, plan
from lanes.policy import Policy
from lanes.transitions import Transition
from tests.conformance.ledger import Ledger
from tests.conformance.port import (
    POLICY,
    UNIT,
    Beat,
    FlowView,
    Hold,
    JobName,
    JobView,
    Line,
    Sweep,
    Used,
    View,
)


@dataclass(slots=True)
class Job:
    name: JobName
    tenant: UUID
    line: Line
    rank: int
    created: float
    deadline: float
    state: JobState = JobState.QUEUED
    fence: int = 0
    attempts: int = 0
    boot: UUID | None = None
    ending: JobState | None = None  # as what it was asked to stop
    not_before: float | None = None
    suspects: UUID | None = None
    suspected: int = 0  # by which death of an engine

    @property
    def claimable(self) -> bool:
        return self.state == JobState.QUEUED and self.not_before is None and self.suspects is None

    @property
    def order(self) -> tuple[int, int]:
        return self.rank, self.name.line


@dataclass(slots=True)
class Flow:
    tenant: UUID
    total: int
    window: float
    folded: int = 0  # of its ended lines, those that the batch's own counts have
    status: BatchStatus = BatchStatus.IN_PROGRESS


@dataclass(slots=True)
class Oracle:
    """The port's other side; its methods are async only because the port's are."""

    policy: Policy = POLICY
    now: float = 0.0
    weights: dict[UUID, float] = field(default_factory=dict)
    jobs: dict[JobName, Job] = field(default_factory=dict)
    flows: dict[UUID, Flow] = field(default_factory=dict)
    leases: dict[UUID, float] = field(default_factory=dict)  # live workers: when their lease ends
    late: set[JobName] = field(default_factory=set)  # ended by the end of the batch's window
    happened: Counter[str] = field(default_factory=Counter)
    deaths: int = 0  # of engines
    planned: list[FlowAccount] = field(default_factory=list)  # what the last claim was planned from
    ledger: Ledger = field(default_factory=Ledger)

    async def tenant(self, tenant: UUID, weight: float) -> None:
        self.weights[tenant] = weight

    async def worker(self, boot: UUID) -> None:
        self.leases[boot] = self.now + self.policy.lease_seconds

    async def enqueue(self, tenant: UUID, flow: UUID, lines: Sequence[Line]) -> None:
        window = max(line.window for line in lines) * UNIT
        self.flows[flow] = Flow(tenant, len(lines), self.now + window)
        for number, line in enumerate(lines, start=1):
            name = JobName(flow, number)
            self.jobs[name] = Job(name, tenant, line, line.rank, self.now, self.now + line.window * UNIT)
        others = [job for job in self.jobs.values() if job.tenant == tenant and job.name.flow != flow]
        waits = any(job.claimable for job in others)
        self.ledger.activate(tenant, flow, self.weights[tenant], waits=waits)

    # -- claims -----------------------------------------------------------------------------------

    async def claim(self, boot: UUID, seats: int) -> list[Hold]:
        return await self.claim_like(boot, seats, [])

    async def claim_like(self, boot: UUID, seats: int, order: Sequence[UUID]) -> list[Hold]:
        """A claim. Between tenants, and between flows, of equal virtual time no rule says which goes
        first: there it is as in this order of flows."""
        self.ledger.fold()
        self.planned = self._heads()
        if boot not in self.leases:
            return []
        claimed = []
        for take in plan(Snapshot(seats, _sorted(self.planned, order)), self.policy):
            waiting = [job for job in self.claimable(take.flow_id) if job.deadline > self.now]
            claimed += [self._lease(job, boot) for job in waiting[: take.jobs]]
        return claimed

    def _lease(self, job: Job, boot: UUID) -> Hold:
        self._move(job, transitions.CLAIM)
        job.boot = boot
        self._charge(job, self._predicted(job), self._predicted(job))
        return Hold(job.name, job.fence)

    def claimable(self, flow: UUID) -> list[Job]:
        """Its queued jobs that wait for nothing, in the order in which they run."""
        if self.flows[flow].status == BatchStatus.CANCELLING:
            return []
        ready = [job for job in self.jobs.values() if job.name.flow == flow and job.claimable]
        return sorted(ready, key=lambda job: job.order)

    def _heads(self) -> list[FlowAccount]:
        heads = []
        for (tenant, name), account in self.ledger.accounts.items():
            ready = [job for job in self.claimable(name) if job.deadline > self.now] if name else []
            if name is not None and ready:
                own, flow = self.ledger.accounts[tenant, None], self.flows[name]
                heads.append(
                    FlowAccount(
                        tenant, name, own.vtime, own.weight, account.vtime, self._predicted(ready[0]),
                        queued_jobs_left=flow.total - flow.folded,
                    )
                )  # fmt: skip
        return heads

    async def claim_suspects(self, boot: UUID) -> list[Hold]:
        return await self.claim_suspects_like(boot, frozenset())

    async def claim_suspects_like(self, boot: UUID, wanted: frozenset[Hold]) -> list[Hold]:
        """The group that has waited longest; of two made at once, the wanted one."""
        waiting = [
            job
            for job in self.jobs.values()
            if job.suspects is not None and job.state == JobState.QUEUED and job.not_before is None
            if job.deadline > self.now and not self._is_cancelled(job)
        ]
        if boot not in self.leases or not waiting:
            return []
        oldest = min(job.suspected for job in waiting)
        groups = sorted({job.suspects for job in waiting if job.suspects and job.suspected == oldest})
        names = {hold.job for hold in wanted}
        group = next(
            (g for g in groups if any(j.suspects == g and j.name in names for j in waiting)), groups[0]
        )
        return [self._lease(job, boot) for job in waiting if job.suspects == group]

    # -- workers ----------------------------------------------------------------------------------

    async def beat(self, boot: UUID) -> Beat:
        if boot not in self.leases:
            return Beat(alive=False)
        self.leases[boot] = self.now + self.policy.lease_seconds
        mine = [job for job in self.jobs.values() if job.boot == boot and job.state in LEASED]
        stopping = [job for job in mine if job.state == JobState.CANCELLING]
        return Beat(
            True,
            frozenset(Hold(job.name, job.fence) for job in mine),
            frozenset(Hold(job.name, job.fence) for job in stopping),
        )

    async def retire(self, boot: UUID) -> None:
        self.leases.pop(boot, None)

    async def succeed(self, hold: Hold, used: Used) -> bool:
        return self._end(hold, transitions.SUCCEED, used)

    async def fail(self, hold: Hold, reason: Failure) -> bool:  # noqa: ARG002 - the port tells it, and it decides nothing
        return self._end(hold, transitions.FAIL, Used(0, 0))

    async def stopped(self, hold: Hold) -> bool:
        asked = self.jobs[hold.job].ending
        cancelled = asked == JobState.CANCELLED
        answer = transitions.STOP_CANCELLED if cancelled else transitions.STOP_EXPIRED
        return self._end(hold, answer, Used(0, 0))

    def _end(self, hold: Hold, transition: Transition, used: Used) -> bool:
        job = self.jobs[hold.job]
        ended = self._move(job, transition, hold.fence)
        if ended:
            really = cost(used.input_tokens, used.output_tokens, self.policy)
            self._charge(job, really - self._predicted(job), -self._predicted(job))
        return ended

    async def retry(self, hold: Hold, units: int) -> bool:
        job = self.jobs[hold.job]
        moved = self._back(job, transitions.RETRY, hold.fence)
        if moved:
            job.suspects = None  # it failed by itself: its engine lived
            job.not_before = self.now + units * UNIT if units else None
        return moved

    async def suspect(self, hold: Hold, group: UUID) -> bool:
        job = self.jobs[hold.job]
        moved = self._back(job, transitions.RELEASE, hold.fence)
        if moved:
            job.suspects, job.suspected = group, self.deaths
        return moved

    async def release(self, hold: Hold) -> bool:
        return self._back(self.jobs[hold.job], transitions.RELEASE, hold.fence)

    def _back(self, job: Job, transition: Transition, fence: int | None = None) -> bool:
        moved = self._move(job, transition, fence)
        if moved:
            self._charge(job, -self._predicted(job), -self._predicted(job))
        return moved

    # -- maintenance ------------------------------------------------------------------------------

    async def cancel(self, flow: UUID) -> bool:
        asked = self.flows[flow].status == BatchStatus.IN_PROGRESS
        if asked:
            self.flows[flow].status = BatchStatus.CANCELLING
        return asked

    async def sweep(self, step: Sweep) -> int:
        steps: dict[Sweep, Callable[[Job], bool]] = {
            Sweep.RESCUE: self._rescue,
            Sweep.BURY: self._bury,
            Sweep.EXPIRE: self._expire,
            Sweep.CANCEL: self._cancel,
            Sweep.STOP: self._stop,
            Sweep.WAKE: self._wake,
            Sweep.AGE: self._age,
        }
        if step is Sweep.FOLD:
            return self._fold_counts()
        if step is Sweep.RESCUE:
            self.leases = {boot: until for boot, until in self.leases.items() if until > self.now}
        return sum(steps[step](job) for job in self.jobs.values())

    def _orphaned(self, job: Job) -> bool:
        return job.state in LEASED and job.boot not in self.leases

    def _rescue(self, job: Job) -> bool:
        return self._orphaned(job) and self._back(job, transitions.RESCUE)

    def _bury(self, job: Job) -> bool:
        asked = job.ending == JobState.CANCELLED
        bury = transitions.BURY_CANCELLED if asked else transitions.BURY_EXPIRED
        buried = self._orphaned(job) and self._move(job, bury)
        if buried:
            self._charge(job, -self._predicted(job), -self._predicted(job))
        return buried

    def _expire(self, job: Job) -> bool:
        return job.deadline <= self.now and self._move(job, transitions.EXPIRE)

    def _cancel(self, job: Job) -> bool:
        return self._is_cancelled(job) and self._move(job, transitions.CANCEL)

    def _stop(self, job: Job) -> bool:
        late, cancelled = job.deadline <= self.now, self._is_cancelled(job)
        asked = (late or cancelled) and self._move(job, transitions.STOP)
        if asked:
            job.ending = JobState.CANCELLED if cancelled else JobState.EXPIRED
        return asked

    def _wake(self, job: Job) -> bool:
        if job.state != JobState.QUEUED or job.not_before is None or job.not_before > self.now:
            return False
        job.not_before = None
        return True

    def _age(self, job: Job) -> bool:
        old = job.created <= self.now - self.policy.age_seconds
        aged = old and job.state == JobState.QUEUED and job.rank > 0
        if aged:
            job.rank = 0
        return aged

    def _fold_counts(self) -> int:
        for name, flow in self.flows.items():
            flow.folded = sum(job.state.is_terminal for job in self.jobs.values() if job.name.flow == name)
        return 0

    def _is_cancelled(self, job: Job) -> bool:
        return self.flows[job.name.flow].status == BatchStatus.CANCELLING

    async def close_ended(self) -> int:
        live = {job.name.flow for job in self.jobs.values() if not job.state.is_terminal}
        closed = 0
        for name, flow in self.flows.items():
            if name not in live and not flow.status.is_terminal:
                self.ledger.end_flow(flow.tenant, name)
                flow.status = self._final_status(name, flow)
                closed += 1
        return closed

    def _final_status(self, name: UUID, flow: Flow) -> BatchStatus:
        if flow.status == BatchStatus.CANCELLING:
            return BatchStatus.CANCELLED
        return BatchStatus.EXPIRED if any(job.flow == name for job in self.late) else BatchStatus.COMPLETED

    async def pass_time(self, units: int) -> None:
        self.now += units * UNIT

    # -- the core ---------------------------------------------------------------------------------

    def _move(self, job: Job, transition: Transition, fence: int | None = None) -> bool:
        """Compare and set: on the state, and where the transition asks for it on the fence."""
        if job.state not in transition.sources or (transition.fenced and job.fence != fence):
            return False
        job.state = transition.target
        job.fence += transition.raises_fence
        job.attempts += transition.counts_attempt
        if job.state == JobState.QUEUED:
            job.boot = None
        if job.state == JobState.EXPIRED and self.flows[job.name.flow].window <= self.now:
            self.late.add(job.name)
        self.happened[transition.name] += 1
        return True

    def _predicted(self, job: Job) -> float:
        return cost(job.line.input_tokens, job.line.output_tokens, self.policy)

    def _charge(self, job: Job, tokens: float, reserved: float) -> None:
        self.ledger.charge(job.tenant, job.name.flow, tokens, reserved)

    async def view(self) -> View:
        return View(
            jobs={name: _job(job) for name, job in self.jobs.items()},
            flows={name: self._flow(name) for name in self.flows},
            live_workers=frozenset(self.leases),
            active=frozenset(key for key, account in self.ledger.accounts.items() if account.active),
            vtimes=self.ledger.vtimes(),
        )

    def _flow(self, name: UUID) -> FlowView:
        flow = self.flows[name]
        ended = [job for job in self.jobs.values() if job.name.flow == name and job.state.is_terminal]
        output = tuple(sorted(job.name.line for job in ended if job.state == JobState.SUCCEEDED))
        errors = tuple(sorted(job.name.line for job in ended if job.state != JobState.SUCCEEDED))
        counts = (flow.status, flow.total, len(output), len(errors))
        return FlowView(*counts, output, errors) if flow.status.is_terminal else FlowView(*counts)


def _job(job: Job) -> JobView:
    if job.state.is_terminal:
        return JobView(job.state, job.fence, attempts=job.attempts)
    delayed = job.not_before is not None
    return JobView(job.state, job.fence, job.attempts, job.boot, delayed, job.suspects)


def _sorted(heads: Sequence[FlowAccount], order: Sequence[UUID]) -> list[FlowAccount]:
    place = {flow: number for number, flow in enumerate(order)}
    first: dict[UUID, int] = {}
    for head in heads:
        number = place.get(head.flow_id, 0)
        first[head.tenant_id] = min(first.get(head.tenant_id, number), number)
    return sorted(
        heads,
        key=lambda head: (
            head.tenant_vtime, first[head.tenant_id], head.flow_vtime, place.get(head.flow_id, 0),
        ),
    )  # fmt: skip
