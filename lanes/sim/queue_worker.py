"""A worker in virtual time: it claims, runs, reports, and lives through its faults."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass
from itertools import count
from uuid import UUID

from lanes import failure
from lanes.account import cost
from lanes.job import JobState as State
from lanes.job import Lease
from lanes.lane import Lane
from lanes.lately import Lately
from lanes.policy import Policy
from lanes.retry import RetryBudget, retry_after
from lanes.shares import LaneDemand, shares
from lanes.sim.queue_store import QueueStore, Row
from lanes.sim.queue_values import Draw, EngineDeath, QueueRun, QueueShape
from lanes.suspects import halves

Later = Callable[[float, Callable[[float], None]], None]  # at this time, call this with the time

_PULLED = (Lane.INTERACTIVE, Lane.STANDARD, Lane.BULK)


@dataclass(frozen=True, slots=True)
class _Run:
    row: Row
    lease: Lease


class SimWorker:
    """One process and its engine. A new boot id makes it a new worker to the store."""

    def __init__(
        self, store: QueueStore, shape: QueueShape, policy: Policy, run: QueueRun, *,
        ids: count[int], draw: Draw, later: Later,
    ) -> None:  # fmt: skip
        self._store = store
        self._shape = shape
        self._policy = policy
        self._run = run
        self._ids = ids
        self._draw = draw
        self._later = later
        self._held: dict[Lease, _Run] = {}
        self._waiting: deque[_Run] = deque()  # held, without a seat yet
        self._seated: set[Lease] = set()
        self._up_at = 0.0  # of the process
        self._ready_at = 0.0  # of its engine
        self._stalled_until = 0.0
        self._alone = False  # a group of suspects has the engine
        self._served = dict.fromkeys(Lane, Lately())
        self._served_at = dict.fromkeys(Lane, 0.0)
        self._looked_at = 0.0
        self._budget = RetryBudget.full(policy)
        self.boot_id = self._new_id()
        self.beat_at = 0.0

    # the process ------------------------------------------------------------------------------
    def beat(self, now: float) -> None:
        """Renew the lease, unless it has ended, or the process stands still or is not up."""
        if now >= max(self._stalled_until, self._up_at) and not self._lease_lost(now):
            self.beat_at = now

    def evict(self, now: float) -> UUID:
        """The process is gone; returns the boot id that will be silent from now on."""
        gone = self.boot_id
        self._restart(now)
        return gone

    def drain(self, now: float) -> None:
        for lease in list(self._held):
            self._store.give_back(lease, now, blamed=failure.DRAINED.blames_job)
        self._restart(now)

    def stall(self, now: float, seconds: float) -> UUID:
        """It stands still; returns the boot id that may be found silent."""
        self._stalled_until = now + seconds
        boot = self.boot_id
        self._later(self._stalled_until, lambda at: self._woke(boot, at))
        return boot

    def stop(self, row: Row, now: float) -> None:
        """A client cancelled a job; this worker drops it if it holds it."""
        if row.lease in self._held and now >= self._stalled_until:
            self._let_go(row.lease, now)
            self._store.answer_stop(row.lease, now)
            self._look_soon(now)

    def _woke(self, boot_id: UUID, now: float) -> None:
        """It goes on as if nothing had been: what ended meanwhile is reported first, then it beats."""
        if boot_id != self.boot_id:
            return
        # The beat that finds the lease gone drops everything and registers anew.
        self._later(now, self._restart if self._lease_lost(now) else self.look)

    def _lease_lost(self, now: float) -> bool:
        return now - self.beat_at > self._policy.lease_seconds

    def _restart(self, now: float) -> None:
        self._drop_all()
        self._alone = False
        self._stalled_until = 0.0
        self.boot_id = self._new_id()
        self._up_at = self._ready_at = self.beat_at = now + self._shape.restart_seconds
        self._look_soon(self._ready_at)

    # claims -----------------------------------------------------------------------------------
    def look(self, now: float) -> None:
        """Claim if seats are free."""
        if now < self._ready_at or now < self._stalled_until or self._lease_lost(now):
            return
        if not self._held:
            self._alone = False
            suspects = self._store.claim_suspects(self.boot_id, now)
            if suspects:
                self._alone = True
                self._start(suspects, now)
                return
        if self._alone or self._must_empty(now):
            return
        free = self._shape.seats + self._shape.ahead - len(self._held)
        if free >= max(1, self._shape.ahead / 2):
            self._fill(free, now)

    def _must_empty(self, now: float) -> bool:
        waited = [now - group.since for group in self._store.groups.values()]
        return max(waited, default=0.0) > self._policy.suspect_patience_seconds

    def _fill(self, free: int, now: float) -> None:
        came = {lane: at for lane in _PULLED if (at := self._store.oldest(lane)) is not None}
        self._pass_time(came.keys(), now)
        while free and came:
            demands = [
                LaneDemand(lane, now - max(at, self._served_at[lane]), self._served[lane])
                for lane, at in came.items()
            ]
            for share in shares(free, demands, self._policy):
                rows = self._claim(share.lane, share.seats, now)
                free -= len(rows)
                if len(rows) < share.seats:
                    came.pop(share.lane, None)

    def _claim(self, lane: Lane, seats: int, now: float) -> list[Row]:
        rows = self._store.claim(
            lane, self.boot_id, seats=seats, tokens=self._free_tokens(), idle=not self._held, now=now,
            draw=self._draw(),
        )  # fmt: skip
        if rows:
            self._served_at[lane] = now
            self._count(lane, sum(self._store.charge(row) for row in rows), len(rows))
        self._start(rows, now)
        return rows

    def _count(self, lane: Lane, change: float, jobs: int, seconds: float = 0.0) -> None:
        half_life = self._policy.share_half_life_seconds
        self._served[lane] = self._served[lane].after(seconds, change, jobs, half_life)

    def _pass_time(self, waiting: Collection[Lane], now: float) -> None:
        both = Lane.STANDARD in waiting and Lane.BULK in waiting
        for lane in Lane:
            if both:
                self._count(lane, 0.0, 0, now - self._looked_at)
            else:
                self._served[lane] = Lately()
        self._looked_at = now

    def _free_tokens(self) -> int | None:
        if self._shape.kv_tokens is None:
            return None
        held = sum(run.row.job.input_tokens + run.row.predicted for run in self._held.values())
        return self._shape.kv_tokens - held

    # runs -------------------------------------------------------------------------------------
    def _start(self, rows: list[Row], now: float) -> None:
        for row in rows:
            run = _Run(row, row.lease)
            self._held[run.lease] = run
            self._waiting.append(run)
        self._seat(now)

    def _seat(self, now: float) -> None:
        """Give the free seats to those that wait, in their order."""
        while self._waiting and len(self._seated) < self._shape.seats:
            run = self._waiting.popleft()
            if run.lease not in self._held:
                continue
            self._seated.add(run.lease)
            takes = self._shape.seconds(run.row.job, self._draw())
            if run.row.job.kills:
                self._later(now + takes / 2, _bound(self._died, run))
            else:
                self._later(now + takes, _bound(self._ended, run))

    def _let_go(self, lease: Lease, now: float) -> None:
        del self._held[lease]
        self._seated.discard(lease)
        self._seat(now)

    def _drop_all(self) -> None:
        self._held.clear()
        self._waiting.clear()
        self._seated.clear()

    def _ended(self, run: _Run, now: float) -> None:
        if now < self._stalled_until:
            self._later(self._stalled_until, _bound(self._ended, run))
            return
        if self._held.get(run.lease) is not run:
            return
        self._let_go(run.lease, now)
        if run.row.job.errors > run.row.attempts:
            self._failed(run, now)
        else:
            self._budget = self._budget.after_finish(self._policy)
            job = run.row.job
            used = cost(job.input_tokens, job.output_tokens, self._policy)
            if self._store.succeed(run.lease, now):
                self._count(job.lane, used - self._store.charge(run.row), 0)
        self.look(now)

    def _failed(self, run: _Run, now: float) -> None:
        reason = failure.ENGINE_ERROR
        wait = retry_after(
            reason, run.row.attempts + 1, run.row.job.deadline - now, self._draw(), self._policy,
            in_budget=self._budget.allows,
        )  # fmt: skip
        if wait is None or run.row.state is not State.RUNNING:
            self._store.fail(run.lease, reason, now)
        else:
            self._budget = self._budget.after_retry()
            self._store.give_back(run.lease, now, delay=wait, blamed=reason.blames_job)

    def _died(self, run: _Run, now: float) -> None:
        """The engine ends under everything that it holds, while the worker lives."""
        if now < self._stalled_until:
            self._later(self._stalled_until, _bound(self._died, run))
            return
        if self._held.get(run.lease) is not run:
            return
        leases = list(self._held)
        self._run.deaths.append(EngineDeath(now, frozenset(lease.job_id for lease in leases)))
        groups = halves(leases)
        if not groups:
            self._store.fail(run.lease, failure.ENGINE_KILLER, now)
        for group in groups:
            group_id = self._new_id()
            for lease in group:
                self._store.give_back(lease, now, suspects=group_id)
        self._drop_all()
        self._ready_at = now + self._shape.restart_seconds
        self._look_soon(self._ready_at)

    def _look_soon(self, at: float) -> None:
        self._later(at, self.look)

    def _new_id(self) -> UUID:
        return UUID(int=next(self._ids))


def _bound(call: Callable[[_Run, float], None], run: _Run) -> Callable[[float], None]:
    return lambda now: call(run, now)
