"""The durable queue in memory: every write goes through `lanes.transitions`, as the database's do."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from math import inf
from uuid import UUID

from lanes import transitions
from lanes.account import cost
from lanes.estimate import output_tokens
from lanes.failure import Failure
from lanes.job import JobState as State
from lanes.job import Lease
from lanes.lane import Lane
from lanes.lately import Lately
from lanes.lengths import bucket
from lanes.plan import FlowAccount, Snapshot, plan
from lanes.policy import Policy
from lanes.sim.queue_accounts import LaneAccounts, SimAccount
from lanes.sim.queue_values import JobEnd, QueueRun, SimJob
from lanes.transitions import Transition


@dataclass(slots=True, eq=False)
class Row:
    """A live job."""

    job: SimJob
    ord: int  # of its arrival, also after a retry
    rank: int
    predicted: int  # output tokens
    state: State = State.QUEUED
    fence: int = 0
    attempts: int = 0
    boot_id: UUID | None = None
    claimed: float | None = None
    leases: int = 0
    not_before: float = 0.0
    suspects: UUID | None = None

    @property
    def claimable(self) -> bool:
        return self.state is State.QUEUED and self.suspects is None and not self.not_before

    @property
    def lease(self) -> Lease:
        return Lease(self.job.id, self.fence)


@dataclass(slots=True)
class SuspectGroup:
    since: float
    rows: list[Row] = field(default_factory=list)


class QueueStore:
    """What the database is to the workers. `now` is an argument of whatever needs the time."""

    def __init__(self, weights: dict[UUID, float], policy: Policy, run: QueueRun) -> None:
        self._policy = policy
        self._run = run
        self._accounts = {lane: LaneAccounts(weights, policy) for lane in Lane}
        self._queues: dict[tuple[Lane, UUID, UUID], list[tuple[int, float, int, Row]]] = {}
        self._lengths: dict[tuple[UUID, int], dict[int, int]] = {}
        self._order = count()
        self.served = dict.fromkeys(Lane, Lately())
        self._served_at = dict.fromkeys(Lane, 0.0)
        self.rows: dict[UUID, Row] = {}
        self.groups: dict[UUID, SuspectGroup] = {}
        self._held: dict[UUID, dict[UUID, Row]] = {}  # by boot id
        self._due: list[tuple[float, int, Row]] = []  # when to look at a queued row again

    # entering ---------------------------------------------------------------------------------
    def enqueue(self, job: SimJob) -> None:
        row = Row(job, next(self._order), job.rank, output_tokens(job.limit, self._policy, self.seen(job)))
        self.rows[job.id] = row
        self._accounts[job.lane].came(job.tenant_id, job.flow_id)
        self._offer(row)
        self._remind(row, job.deadline)
        if job.rank > 0:
            self._remind(row, job.arrival + self._policy.age_seconds)

    def seen(self, job: SimJob) -> dict[int, int]:
        """What is known of the answers to its like, by bucket."""
        return self._lengths.get((job.tenant_id, bucket(job.input_tokens)), {})

    def seat_speed(self, last: int) -> float:
        """Cost a second with which one job advances, by the last that succeeded; 0 before there are any."""
        ends = [end for end in self._run.ends[-last:] if end.state is State.SUCCEEDED]
        used = sum(cost(end.job.input_tokens, end.job.output_tokens, self._policy) for end in ends)
        seconds = sum(end.ended - (end.ended if end.claimed is None else end.claimed) for end in ends)
        return used / seconds if seconds else 0.0

    def oldest(self, lane: Lane) -> float | None:
        """When the oldest claimable job of a lane came."""
        came = [
            queue[0][3].job.arrival
            for (of, _, _), queue in self._queues.items()
            if of is lane and self._trim(queue)
        ]
        return min(came, default=None)

    # leases -----------------------------------------------------------------------------------
    def claim(
        self,
        lane: Lane,
        boot_id: UUID,
        *,
        seats: int,
        tokens: int | None,
        idle: bool,
        now: float,
        draw: float,
    ) -> list[Row]:
        """The turnstile of a lane: snapshot, plan, claim and charge."""
        pairs = self._accounts[lane].least(self._policy.accounts_per_seat * seats)
        flows = [account for pair in pairs if (account := self._seen(lane, *pair, now)) is not None]
        snapshot = Snapshot(seats, flows, self.served[lane].cost_per_second, tokens, idle, draw)
        claimed = []
        for take in plan(snapshot, self._policy):
            queue = self._queues[lane, take.tenant_id, take.flow_id]
            for _ in range(take.jobs):
                if not self._trim(queue):
                    break
                row = heapq.heappop(queue)[3]
                self._claimable(row, -1)
                self._lease(row, boot_id, now)
                claimed.append(row)
        return claimed

    def claim_suspects(self, boot_id: UUID, now: float) -> list[Row]:
        """The oldest group, whole, for a worker whose engine is empty."""
        rows: list[Row] = []
        while self.groups and not rows:
            group_id = min(self.groups, key=lambda group: self.groups[group].since)
            rows = [row for row in self.groups.pop(group_id).rows if row.job.id in self.rows]
        for row in rows:
            row.suspects = None
            self._lease(row, boot_id, now)
        return rows

    def succeed(self, lease: Lease, now: float) -> bool:
        row = self._move(lease, transitions.SUCCEED)
        if row is None:
            return False
        self._end(row, now, None, used=True)
        lengths = self._lengths.setdefault((row.job.tenant_id, bucket(row.job.input_tokens)), {})
        index = bucket(row.job.output_tokens)
        lengths[index] = lengths.get(index, 0) + 1
        return True

    def fail(self, lease: Lease, failure: Failure, now: float) -> bool:
        row = self._move(lease, transitions.FAIL)
        if row is not None:
            self._end(row, now, failure, used=False)
        return row is not None

    def give_back(
        self,
        lease: Lease,
        now: float,
        *,
        delay: float = 0.0,
        blamed: bool = False,
        suspects: UUID | None = None,
    ) -> bool:
        row = self._move(lease, transitions.RETRY if blamed else transitions.RELEASE)
        if row is None:
            return False
        self._requeue(row, now, delay, suspects)
        return True

    def answer_stop(self, lease: Lease, now: float) -> bool:
        row = self._move(lease, transitions.STOP_CANCELLED)
        if row is not None:
            self._end(row, now, None, used=False)
        return row is not None

    # what others do to a job --------------------------------------------------------------------
    def cancel(self, flow_id: UUID, now: float) -> list[Row]:
        """Cancel a flow; the running rows, whose workers must be told."""
        rows = [row for row in self.rows.values() if row.job.flow_id == flow_id]
        told = []
        for row in rows:
            if self._write(row, transitions.CANCEL):
                self._end(row, now, None, used=False)
            elif self._write(row, transitions.STOP):
                told.append(row)
        return told

    def sweep(self, now: float, silent: Sequence[UUID]) -> None:
        """Wake, expire and age what is due, and rescue what silent workers held."""
        while self._due and self._due[0][0] <= now:
            _, _, row = heapq.heappop(self._due)
            if row.job.id in self.rows and row.state is State.QUEUED:
                self._fall_due(row, now)
        for boot_id in silent:
            for row in list(self._held.pop(boot_id, {}).values()):
                if self._write(row, transitions.RESCUE):
                    self._requeue(row, now, 0.0, None)
                elif self._write(row, transitions.BURY_CANCELLED):
                    self._end(row, now, None, used=False)

    def _fall_due(self, row: Row, now: float) -> None:
        if row.job.deadline <= now:
            self._write(row, transitions.EXPIRE)
            self._end(row, now, None, used=False)
        elif row.not_before and row.not_before <= now:
            row.not_before = 0.0
            self._offer(row)
        elif row.rank > 0 and now >= row.job.arrival + self._policy.age_seconds:
            if row.claimable:
                self._claimable(row, -1)
            row.rank = 0
            if row.claimable:
                self._offer(row)

    # the inside ---------------------------------------------------------------------------------
    def _seen(self, lane: Lane, tenant: SimAccount, flow: SimAccount, now: float) -> FlowAccount | None:
        queue = self._queues[lane, tenant.id, flow.id]
        if not self._trim(queue):
            return None
        head = queue[0][3]
        return FlowAccount(
            tenant_id=tenant.id,
            flow_id=flow.id,
            tenant_vtime=tenant.vtime,
            tenant_weight=tenant.weight,
            flow_vtime=flow.vtime,
            head_cost=self.charge(head),
            head_tokens=head.job.input_tokens + head.predicted,
            due_seconds=head.job.deadline - now,
            queued_jobs_left=flow.queued,
        )

    def _trim(self, queue: list[tuple[int, float, int, Row]]) -> bool:
        """Whether a claimable job is at the head, once stale entries are gone."""
        while queue:
            rank, _, _, row = queue[0]
            if row.claimable and row.rank == rank:
                return True
            heapq.heappop(queue)
        return False

    def _offer(self, row: Row) -> None:
        job = row.job
        place = job.deadline // self._policy.bucket_seconds
        queue = self._queues.setdefault((job.lane, job.tenant_id, job.flow_id), [])
        heapq.heappush(queue, (row.rank, place, row.ord, row))
        self._claimable(row, 1)

    def _claimable(self, row: Row, change: int) -> None:
        self._accounts[row.job.lane].claimable(row.job.tenant_id, row.job.flow_id, change)

    def _remind(self, row: Row, at: float) -> None:
        if at < inf:
            heapq.heappush(self._due, (at, next(self._order), row))

    def charge(self, row: Row) -> float:
        return cost(row.job.input_tokens, row.predicted, self._policy)

    def _settle(self, row: Row, used: float) -> None:
        job = row.job
        self._accounts[job.lane].settle(job.tenant_id, job.flow_id, self.charge(row), used)

    def _lease(self, row: Row, boot_id: UUID, now: float) -> None:
        written = self._write(row, transitions.CLAIM)
        assert written, "only queued jobs are offered"
        row.boot_id = boot_id
        self._held.setdefault(boot_id, {})[row.job.id] = row
        row.leases += 1
        row.claimed = now if row.claimed is None else row.claimed
        self._accounts[row.job.lane].charge(row.job.tenant_id, row.job.flow_id, self.charge(row))

    def _requeue(self, row: Row, now: float, delay: float, suspects: UUID | None) -> None:
        self._settle(row, 0.0)
        self._let_go(row)
        row.suspects = suspects
        if suspects is not None:
            self.groups.setdefault(suspects, SuspectGroup(now)).rows.append(row)
        elif delay > 0:
            row.not_before = now + delay
            self._remind(row, row.not_before)
        else:
            self._offer(row)
        if row.job.deadline <= now:
            self._remind(row, now)
        if row.rank > 0:
            self._remind(row, row.job.arrival + self._policy.age_seconds)

    def _let_go(self, row: Row) -> None:
        if row.boot_id is not None:
            self._held.get(row.boot_id, {}).pop(row.job.id, None)
        row.boot_id = None

    def _move(self, lease: Lease, transition: Transition) -> Row | None:
        row = self.rows.get(lease.job_id)
        if row is None or row.fence != lease.fence or not self._write(row, transition):
            self._run.events["refused"] += 1
            return None
        return row

    def _write(self, row: Row, transition: Transition) -> bool:
        if row.state not in transition.sources:
            return False
        row.state = transition.target
        row.fence += transition.raises_fence
        row.attempts += transition.counts_attempt
        self._run.events[transition.name] += 1
        return True

    def _end(self, row: Row, now: float, failure: Failure | None, *, used: bool) -> None:
        job = row.job
        if row.boot_id is not None:
            real = cost(job.input_tokens, job.output_tokens, self._policy) if used else 0.0
            self._settle(row, real)
            self._count(job.lane, real, now)
            self._let_go(row)
        elif row.suspects is None and not row.not_before:
            self._claimable(row, -1)
        self._accounts[job.lane].left(job.tenant_id, job.flow_id)
        del self.rows[job.id]
        reason = failure.code if failure else None
        self._run.ends.append(JobEnd(job, row.state, reason, row.claimed, now, row.attempts, row.leases))

    def _count(self, lane: Lane, real: float, now: float) -> None:
        passed = now - self._served_at[lane]
        self._served_at[lane] = now
        self.served[lane] = self.served[lane].after(passed, real, 1, self._policy.rate_half_life_seconds)
