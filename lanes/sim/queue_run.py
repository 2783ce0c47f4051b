"""A workload through simulated workers, under the faults that are given."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping
from itertools import count
from math import inf
from uuid import UUID

from lanes.policy import Policy
from lanes.sim.queue_store import QueueStore
from lanes.sim.queue_values import Draw, Fault, FaultKind, QueueRun, QueueShape, SimJob
from lanes.sim.queue_worker import SimWorker

Call = Callable[[float], None]
Admit = Callable[[SimJob, QueueStore, float], bool]  # whether a job is taken in, at this time


def run_queue(
    jobs: Iterable[SimJob],
    shape: QueueShape,
    policy: Policy,
    draw: Draw,
    *,
    weights: Mapping[UUID, float] | None = None,
    faults: Iterable[Fault] = (),
    until: float = inf,
    admit: Admit | None = None,
) -> QueueRun:
    """Run until every job has ended, or virtual time is `until` seconds.

    The same arguments give the same run. Job ids must differ. Without `admit` all are taken in.
    """
    simulation = _Simulation(shape, policy, draw, weights or {}, admit)
    return simulation.run(jobs, faults, until)


class _Simulation:
    def __init__(
        self,
        shape: QueueShape,
        policy: Policy,
        draw: Draw,
        weights: Mapping[UUID, float],
        admit: Admit | None,
    ) -> None:
        self._policy = policy
        self._admit = admit
        self._calls: list[tuple[float, int, Call]] = []
        self._order = count()
        self._coming = 0
        self._silent: dict[UUID, float] = {}  # boot ids without a process, and when their lease ends
        self._run = QueueRun()
        self._store = QueueStore(dict(weights), policy, self._run)
        ids = count(1 << 64)  # boot ids and groups, apart from the numbers that tests give
        self._workers = [
            SimWorker(self._store, shape, policy, self._run, ids=ids, draw=draw, later=self._later)
            for _ in range(shape.workers)
        ]

    def run(self, jobs: Iterable[SimJob], faults: Iterable[Fault], until: float) -> QueueRun:
        for job in jobs:
            self._coming += 1
            self._later(job.arrival, self._arrival(job))
        for fault in faults:
            self._later(fault.at, self._fault(fault))
        self._later(0.0, self._tick)
        while self._calls and self._calls[0][0] <= until:
            now, _, call = heapq.heappop(self._calls)
            call(now)
            if not self._coming and not self._store.rows:
                break
        return self._run

    def _later(self, at: float, call: Call) -> None:
        heapq.heappush(self._calls, (at, next(self._order), call))

    def _tick(self, now: float) -> None:
        """Each beat: heartbeats, one sweep, and every worker looks."""
        for worker in self._workers:
            worker.beat(now)
        self._store.sweep(now, [boot for boot, at in self._silent.items() if at <= now])
        self._silent = {boot: at for boot, at in self._silent.items() if at > now}
        for worker in self._workers:
            worker.look(now)
        self._later(now + self._policy.beat_seconds, self._tick)

    def _arrival(self, job: SimJob) -> Call:
        def arrive(now: float) -> None:
            self._coming -= 1
            if self._admit is not None and not self._admit(job, self._store, now):
                return
            self._store.enqueue(job)
            # one doorbell for jobs that come together
            if not self._calls or self._calls[0][0] > now:
                for worker in self._workers:
                    worker.look(now)

        return arrive

    def _fault(self, fault: Fault) -> Call:
        def happen(now: float) -> None:
            self._run.events[fault.kind] += 1
            worker = self._workers[fault.worker % len(self._workers)]
            lease_ends = worker.beat_at + self._policy.lease_seconds
            if fault.kind is FaultKind.EVICT:
                self._silent[worker.evict(now)] = lease_ends
            elif fault.kind is FaultKind.STALL:
                boot = worker.stall(now, fault.seconds)
                if now + fault.seconds > lease_ends:
                    self._silent[boot] = lease_ends
            elif fault.kind is FaultKind.DRAIN:
                worker.drain(now)
            elif fault.flow_id is not None:
                for row in self._store.cancel(fault.flow_id, now):
                    for each in self._workers:
                        each.stop(row, now)

        return happen
