"""A play on both sides of the port at once: clients, workers with all their misfortunes, maintenance.

Each action does the same to the oracle and to PostgreSQL and compares the answers; `holds` checks
what must be true after any of them. Which action comes when is the machine's (machine.py).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any, TypeVar
from uuid import UUID

from lanes import failure
from lanes.account import cost
from lanes.job import LEASED
from lanes.plan import Snapshot
from lanes.retry import retry_after
from lanes.suspects import halves
from tests.conformance.invariants import Bound, Fairness, Watch
from tests.conformance.oracle import Oracle
from tests.conformance.port import POLICY, UNIT, Hold, JobName, Line, Queue, Sweep, Used, View
from tests.conformance.postgres import PostgresQueue

T = TypeVar("T")

WEIGHTS = {UUID(int=1): 1.0, UUID(int=2): 2.0, UUID(int=3): 4.0}
SMALL, LARGE = (8, 4), (8, 12)  # input and output tokens: they cost 16 and 32
OVER = 4  # output tokens beyond the prediction
SEATS = 4
LONGEST = 10  # units: no window is longer


@dataclass(slots=True)
class Crew:
    """A worker process: what it believes to hold. `stalled`: it neither beats nor knows of that."""

    boot: UUID
    knows: set[Hold] = field(default_factory=set)
    stalled: bool = False


@dataclass(slots=True)
class Stage:
    """What outlives one run of the machine: the loop, the database, and what ever happened."""

    runner: asyncio.Runner
    fresh: Callable[[], Coroutine[Any, Any, PostgresQueue]]  # over a database without rows
    planned: list[Snapshot]  # what the product's claims were planned from
    events: Counter[str] = field(default_factory=Counter)
    runs: int = 0


class Play:
    """`pick` says which of those that there are, by their order; without any, nothing happens."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.oracle = Oracle()
        self.postgres = stage.runner.run(stage.fresh())
        self.watch = Watch()
        least, most = cost(*SMALL, POLICY), cost(*LARGE, POLICY)
        self.fairness = Fairness(Bound(POLICY, least, most, POLICY.output_cost * OVER), WEIGHTS)
        self.crews: list[Crew] = []
        self.given: list[Hold] = []
        self.numbers = iter(range(1000, 10**6))

    # -- plumbing ---------------------------------------------------------------------------------

    def both(self, call: Callable[[Queue], Awaitable[T]]) -> T:
        """Do it to both sides; they must answer alike."""

        async def run() -> tuple[T, T]:
            return await call(self.oracle), await call(self.postgres)

        expected, found = self.stage.runner.run(run())
        assert found == expected, difference(found, expected)
        return found

    def leased(self, found: list[Hold], expected: list[Hold]) -> frozenset[Hold]:
        """What a claim gave out on PostgreSQL; the oracle must have expected just that."""
        holds = frozenset(found)
        assert holds == frozenset(expected), difference(holds, frozenset(expected))
        self.watch.leased(holds)
        self.given += sorted(holds)
        return holds

    def happens(self, event: str, *, really: bool = True) -> None:
        self.stage.events[event] += really

    def new_id(self) -> UUID:
        return UUID(int=next(self.numbers))

    def known(self) -> list[tuple[Crew, Hold]]:
        return [(crew, hold) for crew in self.crews for hold in sorted(crew.knows)]

    def waiting(self) -> set[UUID]:
        """Tenants with a job that could be claimed now."""
        oracle = self.oracle
        return {
            flow.tenant
            for name, flow in oracle.flows.items()
            if any(job.deadline > oracle.now for job in oracle.claimable(name))
        }

    # -- clients ----------------------------------------------------------------------------------

    def open(self) -> None:
        for tenant, weight in WEIGHTS.items():
            self.both(lambda queue, t=tenant, w=weight: queue.tenant(t, w))  # type: ignore[misc]  # mypy knows no defaults here
        for _ in range(2):
            self.hire()

    def hire(self) -> Crew:
        crew = Crew(self.new_id())
        self.both(lambda queue: queue.worker(crew.boot))
        self.crews.append(crew)
        return crew

    def enqueue(self, tenant: UUID, sizes: list[tuple[int, int]], window: int, ranks: int) -> None:
        flow = self.new_id()
        lines = [Line(*size, window, rank=n % (ranks + 1)) for n, size in enumerate(sizes)]
        self.both(lambda queue: queue.enqueue(tenant, flow, lines))
        self.happens("enqueue")

    def cancel(self, pick: int) -> None:
        """Rather of a batch with running jobs, where there is one."""
        running = sorted({hold.job.flow for _, hold in self.known()})
        chosen = running or sorted(self.oracle.flows)
        if chosen:
            flow = chosen[pick % len(chosen)]
            self.happens("cancel", really=self.both(lambda queue: queue.cancel(flow)))

    # -- workers ----------------------------------------------------------------------------------

    def claim(self, pick: int, seats: int, heard: bool) -> None:
        """Unheard: the claim was committed, and its answer never came to the worker."""
        crew = self.crews[pick % len(self.crews)]
        before = self.waiting()
        holds = self.claim_fairly(crew, seats)
        if heard:
            crew.knows |= holds
        served = Counter(self.oracle.jobs[hold.job].tenant for hold in holds)
        self.fairness.claimed(self.look(), served, before & self.waiting())
        self.happens("claim" if heard else "claim unheard", really=bool(holds))

    def claim_fairly(self, crew: Crew, seats: int) -> frozenset[Hold]:
        run, planned = self.stage.runner.run, self.stage.planned
        planned.clear()
        found = run(self.postgres.claim(crew.boot, seats))
        seen = [account for snapshot in planned for account in snapshot.flows]
        expected = run(self.oracle.claim_like(crew.boot, seats, [account.flow_id for account in seen]))
        known = {replace(account, due_seconds=inf, head_tokens=0) for account in seen}
        assert known == set(self.oracle.planned), difference(known, self.oracle.planned)
        return self.leased(found, expected)

    def claim_suspects(self, pick: int) -> None:
        crew = self.crews[pick % len(self.crews)]
        crew.knows |= (holds := self.claim_suspected(crew))
        self.happens("claim suspects", really=bool(holds))

    def claim_suspected(self, crew: Crew) -> frozenset[Hold]:
        """Of two groups made by one death PostgreSQL chooses."""
        run = self.stage.runner.run
        found = run(self.postgres.claim_suspects(crew.boot))
        return self.leased(found, run(self.oracle.claim_suspects_like(crew.boot, frozenset(found))))

    def engine_dies(self, pick: int) -> None:
        """Its jobs go back in halves; one that was alone is the culprit. Rather of a busy worker."""
        crews = [crew for crew in self.crews if crew.knows] or self.crews
        crew = crews[pick % len(crews)]
        held = sorted(crew.knows)
        groups = halves(held)
        self.oracle.deaths += 1
        for group, holds in zip((self.new_id(), self.new_id()), groups, strict=False):
            for hold in holds:
                self.report(crew, hold, "suspect", lambda queue, h=hold, g=group: queue.suspect(h, g))  # type: ignore[misc]  # mypy knows no defaults here
        if len(held) == 1:
            self.report(crew, held[0], "culprit", lambda queue: queue.fail(held[0], failure.ENGINE_KILLER))

    def heartbeat(self, pick: int) -> None:
        """Rather of a worker that was stalled, where there is one."""
        crews = [crew for crew in self.crews if crew.stalled] or self.crews
        self.beat(crews[pick % len(crews)])
        self.happens("heartbeat")

    def beat(self, crew: Crew, *, obeys: bool = False) -> None:
        """As `workers.gpu.heartbeat` compares, save that it waits for a second beat. `obeys`: it stops
        at once what it is asked to stop."""
        answer = self.both(lambda queue: queue.beat(crew.boot))
        crew.stalled = False
        if not answer.alive:
            self.crews.remove(crew)
            self.hire()
            self.happens("zombie told")
            return
        crew.knows &= answer.held
        for hold in sorted(crew.knows & answer.stopping) if obeys else ():
            self.report(crew, hold, "stopped", lambda queue, h=hold: queue.stopped(h))  # type: ignore[misc]  # mypy knows no defaults here
        for hold in sorted(answer.held - crew.knows):
            self.happens("disown", really=self.both(lambda queue, h=hold: queue.release(h)))  # type: ignore[misc]  # mypy knows no defaults here

    def stall(self, pick: int) -> None:
        self.crews[pick % len(self.crews)].stalled = True
        self.happens("stall")

    def leave(self, pick: int) -> None:
        """Rather a worker that was asked to stop a job, where there is one."""
        jobs = self.oracle.jobs
        asked = [crew for crew in self.crews if any(jobs[hold.job].ending for hold in crew.knows)]
        crew = (asked or self.crews)[pick % len(asked or self.crews)]
        self.both(lambda queue: queue.retire(crew.boot))
        self.crews.remove(crew)
        self.hire()

    def complete(self, pick: int, spent: int) -> None:
        known = self.known()
        if not known:
            return
        crew, hold = known[pick % len(known)]
        predicted = self.oracle.jobs[hold.job].line
        used = Used(predicted.input_tokens, min(spent, predicted.output_tokens + OVER))
        self.report(crew, hold, "complete", lambda queue: queue.succeed(hold, used))

    def fail(self, pick: int, reason: failure.Failure) -> None:
        known = self.known()
        if not known:
            return
        crew, hold = known[pick % len(known)]
        job = self.oracle.jobs[hold.job]
        wait = retry_after(reason, job.attempts + 1, job.deadline - self.oracle.now, 0.0, POLICY)
        if wait is None:
            self.report(crew, hold, "fail", lambda queue: queue.fail(hold, reason))
        else:
            units = round(wait / UNIT)
            self.report(crew, hold, "retry", lambda queue: queue.retry(hold, units))

    def release(self, pick: int) -> None:
        known = self.known()
        if not known:
            return
        crew, hold = known[pick % len(known)]
        self.report(crew, hold, "release", lambda queue: queue.release(hold))

    def answer_stop(self, pick: int) -> None:
        known = sorted(self.known(), key=lambda each: self.oracle.jobs[each[1].job].ending is None)
        if not known:
            return
        crew, hold = known[pick % min(len(known), 3)]
        self.report(crew, hold, "stopped", lambda queue: queue.stopped(hold))

    def report(self, crew: Crew, hold: Hold, event: str, call: Callable[[Queue], Awaitable[bool]]) -> None:
        moved = self.both(call)
        job = self.oracle.jobs[hold.job]
        if moved or job.fence != hold.fence:
            crew.knows.discard(hold)
        self.happens(event, really=moved)

    def stale_report(self, pick: int, kind: str) -> None:
        """Of a lease that is over: nothing at all may change."""
        jobs = self.oracle.jobs
        over = [
            hold
            for hold in self.given
            if jobs[hold.job].fence != hold.fence or jobs[hold.job].state not in LEASED
        ]
        if not over:
            return
        hold = over[pick % len(over)]
        calls: dict[str, Callable[[Queue], Awaitable[bool]]] = {
            "succeed": lambda queue: queue.succeed(hold, Used(1, 1)),
            "fail": lambda queue: queue.fail(hold, failure.ENGINE_ERROR),
            "retry": lambda queue: queue.retry(hold, 1),
            "release": lambda queue: queue.release(hold),
            "stopped": lambda queue: queue.stopped(hold),
        }
        before = self.look()
        assert not self.both(calls[kind]), f"{hold} was over"
        assert self.look() == before
        self.happens("stale report")

    # -- maintenance and time ---------------------------------------------------------------------

    def sweep(self, step: Sweep) -> None:
        async def swept(queue: Queue) -> tuple[Sweep, int]:
            return step, await queue.sweep(step)

        self.happens(f"sweep {step}", really=self.both(swept)[1] > 0)

    def close_ended(self) -> None:
        closed = self.both(lambda queue: queue.close_ended())
        self.happens("close", really=closed > 0)

    def clock(self, units: int, *, obey: bool = True) -> None:
        """A lease lasts two units, so that whoever beats keeps it and whoever is stalled loses it."""
        for _ in range(units):
            self.both(lambda queue: queue.pass_time(1))
            for crew in [crew for crew in self.crews if not crew.stalled]:
                self.beat(crew, obeys=obey)
        self.happens("clock")

    # -- what must hold ---------------------------------------------------------------------------

    def look(self) -> View:
        return self.both(lambda queue: queue.view())

    def holds(self) -> None:
        view = self.look()
        self.watch.step(view)
        self.fairness.step(view, self.waiting(), self.watch.most_leased)

    def end_everything(self) -> None:
        """Whatever has happened: every job that may run is found, and everything accepted ends."""
        for crew in list(self.crews):
            self.beat(crew)
        self.sweep(Sweep.WAKE)
        ready = {job.name for flow in self.oracle.flows for job in self.oracle.claimable(flow)}
        ready = {name for name in ready if self.oracle.jobs[name].deadline > self.oracle.now}
        crew, found = self.crews[0], set[JobName]()
        while holds := self.claim_suspected(crew) or self.claim_fairly(crew, POLICY.slice_jobs):
            found |= {hold.job for hold in holds}
        assert ready <= found, f"nobody ever finds {ready - found}"

        for crew in self.crews:
            self.both(lambda queue, c=crew: queue.retire(c.boot))  # type: ignore[misc]  # mypy knows no defaults here
        for step in (Sweep.RESCUE, Sweep.BURY):
            self.sweep(step)
        self.both(lambda queue: queue.pass_time(LONGEST))
        for step in (Sweep.CANCEL, Sweep.EXPIRE):
            self.sweep(step)
        self.close_ended()
        view = self.look()
        self.watch.step(view)
        assert all(flow.status.is_terminal for flow in view.flows.values()), "some batch does not end"


def difference(found: object, expected: object) -> str:
    """What differs, and of two views only that."""
    if not (isinstance(found, View) and isinstance(expected, View)):
        return f"PostgreSQL says {found}, the oracle {expected}"
    parts = []
    for name in ("jobs", "flows", "vtimes"):
        ours, theirs = getattr(found, name), getattr(expected, name)
        parts += [
            f"{name} {key}: PostgreSQL says {ours.get(key)}, the oracle {theirs.get(key)}"
            for key in ours | theirs
            if ours.get(key) != theirs.get(key)
        ]
    if (found.live_workers, found.active) != (expected.live_workers, expected.active):
        parts.append(f"workers {found.live_workers ^ expected.live_workers}")
        parts.append(f"active accounts {found.active ^ expected.active}")
    return "; ".join(parts)
