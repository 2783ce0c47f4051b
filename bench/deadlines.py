"""Whether admission keeps its word: requests of the Azure traces at 0.8, 1.0 and 1.5 load.

Virtual time (`lanes.sim`). Lengths and arrivals are the traces'; how long a request takes comes from a
noisy latency model, of which the estimator only sees what was served before. `met`: of those taken in,
the share that ended in time. `goodput`: ended in time, over those that a clairvoyant earliest-deadline
run brings to an end in time. `false_rejections`: of those turned away, the share that such a run
fits in beside all that we ended in time. Each figure is the worst of its settings.
"""

from __future__ import annotations

import heapq
import random
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Literal
from uuid import UUID

from bench.result import Bar, Result
from bench.traces import azure
from lanes.admission import Request, decide
from lanes.estimate import output_tokens
from lanes.job import JobState
from lanes.lane import Lane
from lanes.outlook import Load
from lanes.policy import DEFAULT
from lanes.sim.queue_run import run_queue
from lanes.sim.queue_store import QueueStore
from lanes.sim.queue_values import QueueShape, SimJob

BARS = {
    "met": Bar(0.99, 0.999),
    "false_rejections": Bar(0.05, 0.01, less_is_better=True),
    "goodput": Bar(0.90, 0.95),
}
LOADS = (0.8, 1.0, 1.5)
TENANTS = 4
DEADLINE_SECONDS = (30.0, 60.0, 180.0)  # drawn for each request
SEED = 20261207
SHAPE = QueueShape(seats=32, ahead=0, prefill_seconds=0.0005, decode_seconds=0.02, noise=0.3)
_LATELY = 64  # ended jobs, by which the speed of one seat is measured
_KINDS: tuple[Literal["conv", "code"], ...] = ("conv", "code")


@dataclass(frozen=True, slots=True)
class Scale:
    requests: int  # of each trace, from its beginning


SCALES = {"quick": Scale(8_000), "full": Scale(19_366)}


@dataclass(frozen=True, slots=True)
class Setting:
    trace: str
    load: float
    offered: int
    rejected: int
    met: float
    false_rejections: float
    goodput: float


def run(scale: str) -> Result:
    size = SCALES[scale]
    return summary([setting(kind, load, size) for kind in _KINDS for load in LOADS], size)


def summary(settings: Sequence[Setting], size: Scale) -> Result:
    return Result(
        bench="deadlines",
        figures={
            "met": round(min(each.met for each in settings), 4),
            "false_rejections": round(max(each.false_rejections for each in settings), 4),
            "goodput": round(min(each.goodput for each in settings), 4),
        },
        spread={},
        about={
            "settings": [asdict(each) for each in settings], "shape": asdict(SHAPE), "tenants": TENANTS,
            "deadline_seconds": DEADLINE_SECONDS, "policy": DEFAULT.version, "seed": SEED, **asdict(size),
        },
    )  # fmt: skip


def setting(kind: Literal["conv", "code"], load: float, size: Scale) -> Setting:
    """One trace, stretched or pressed so that it asks for that share of what the seats can do."""
    chance = random.Random(SEED)  # noqa: S311  # a repeatable workload, not a secret
    jobs = workload(kind, load, size, chance)
    door = Door()
    done = run_queue(jobs, SHAPE, DEFAULT, chance.random, admit=door.admit)
    met = [end.job for end in done.ends if end.state is JobState.SUCCEEDED and end.ended <= end.job.deadline]
    best = clairvoyant(jobs, frozenset())
    kept = frozenset(job.id for job in met)
    more = clairvoyant([*met, *door.rejected], kept) - len(met)
    found = Setting(
        kind, load, len(jobs), len(door.rejected),
        met=len(met) / len(done.ends),
        false_rejections=max(0, more) / max(1, len(door.rejected)),
        goodput=len(met) / best,
    )  # fmt: skip
    print(found, file=sys.stderr, flush=True)
    return found


def workload(kind: Literal["conv", "code"], load: float, size: Scale, chance: random.Random) -> list[SimJob]:
    trace = azure(kind)[: size.requests]
    work = sum(
        SHAPE.prefill_seconds * each.input_tokens + SHAPE.decode_seconds * each.output_tokens
        for each in trace
    )
    stretch = work / (SHAPE.seats * load * trace[-1].arrival)
    jobs = []
    for number, each in enumerate(trace, 1):
        tenant, at = UUID(int=1 + chance.randrange(TENANTS)), each.arrival * stretch
        jobs.append(
            SimJob(
                UUID(int=number), tenant, tenant, at, max(1, each.input_tokens), max(1, each.output_tokens),
                lane=Lane.STANDARD, deadline=at + chance.choice(DEADLINE_SECONDS),
            )
        )  # fmt: skip
    return jobs


class Door:
    """Admission before the simulated queue; it knows what the store has measured, no more."""

    def __init__(self) -> None:
        self.rejected: list[SimJob] = []

    def admit(self, job: SimJob, store: QueueStore, now: float) -> bool:
        request = Request(
            job.input_tokens, output_tokens(None, DEFAULT, store.seen(job)), None, job.deadline - now,
            job.lane, context_tokens=1 << 20,
        )  # fmt: skip
        accepted = decide(request, self._load(job, store), DEFAULT).accepted
        if not accepted:
            self.rejected.append(job)
        return accepted

    def _load(self, job: SimJob, store: QueueStore) -> Load:
        served = store.served[job.lane]
        if served.jobs < DEFAULT.young_samples:
            return Load()
        # Queued work at the mean of what was served: the charges are reserved high.
        bucket = job.deadline // DEFAULT.bucket_seconds
        ahead = queued = running = 0
        waiting = {job.tenant_id}
        for row in store.rows.values():
            if row.state is not JobState.QUEUED:
                running += 1
                continue
            queued += 1
            waiting.add(row.job.tenant_id)
            own = row.job.tenant_id == job.tenant_id
            ahead += own and row.job.deadline // DEFAULT.bucket_seconds <= bucket
        each, speed = served.mean_cost, store.seat_speed(_LATELY)
        return Load(
            ahead_cost=ahead * each,
            lane_cost=queued * each,
            queued_jobs=queued,
            active_weights=float(len(waiting)),
            # What runs now says how fast the lane is, also just after a quiet time.
            cost_per_second=max(served.cost_per_second, running * speed),
            seat_cost_per_second=speed,
        )


def clairvoyant(jobs: Sequence[SimJob], first: frozenset[UUID]) -> int:
    """How many end in time when all times are known: earliest deadline first, those of `first` before
    the others, and whoever cannot end in time is not begun."""
    seats = [0.0] * SHAPE.seats
    waiting: list[tuple[bool, float, int, SimJob]] = []
    coming = sorted(jobs, key=lambda job: job.arrival)
    place = met = 0
    while place < len(coming) or waiting:
        free = heapq.heappop(seats)
        if not waiting and coming[place].arrival > free:
            free = coming[place].arrival
        while place < len(coming) and coming[place].arrival <= free:
            job = coming[place]
            heapq.heappush(waiting, (job.id not in first, job.deadline, place, job))
            place += 1
        while waiting:
            job = heapq.heappop(waiting)[3]
            ends = free + SHAPE.seconds(job, 0.5)
            if ends <= job.deadline:
                free, met = ends, met + 1
                break
        heapq.heappush(seats, free)
    return met
