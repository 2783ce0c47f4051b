"""What the simulated queue is given and what it tells. Times are seconds of virtual time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from math import inf
from uuid import UUID

from lanes.job import JobState
from lanes.lane import Lane

Draw = Callable[[], float]  # the next number in [0, 1); its caller owns the seed


@dataclass(frozen=True, slots=True)
class SimJob:
    """One request, with what only the engine will find out about it."""

    id: UUID
    tenant_id: UUID
    flow_id: UUID
    arrival: float
    input_tokens: int
    output_tokens: int  # what it really produces
    limit: int | None = None
    lane: Lane = Lane.BULK
    deadline: float = inf
    rank: int = 0
    kills: bool = False  # ends every engine that runs it
    errors: int = 0  # attempts that the engine answers with an error before one succeeds


@dataclass(frozen=True, slots=True)
class QueueShape:
    """The workers, all alike, and how long things take.

    A job in a seat takes its tokens' time whatever else runs. A worker holds `ahead` jobs more than it
    has seats, and claims once half of those are missing, as the claim loop does.
    """

    workers: int = 1
    seats: int = 32
    ahead: int = 16
    kv_tokens: int | None = None
    prefill_seconds: float = 0.0001  # per input token
    decode_seconds: float = 0.01  # per output token
    noise: float = 0.1  # a job's time is stretched by up to so much, either way
    restart_seconds: float = 3.0  # of an engine, or of a worker's process

    def seconds(self, job: SimJob, draw: float) -> float:
        expected = self.prefill_seconds * job.input_tokens + self.decode_seconds * job.output_tokens
        return expected * (1 + self.noise * (2 * draw - 1))


class FaultKind(StrEnum):
    EVICT = "evict"  # the process is gone at once, and another starts
    STALL = "stall"  # it stands still for `seconds`, and goes on as if nothing had been
    DRAIN = "drain"  # it gives everything back and starts anew
    CANCEL = "cancel"  # a client cancels the flow `flow_id`


@dataclass(frozen=True, slots=True)
class Fault:
    at: float
    kind: FaultKind
    worker: int = 0
    seconds: float = 0.0
    flow_id: UUID | None = None


@dataclass(frozen=True, slots=True)
class JobEnd:
    """How a job ended, and how it came there."""

    job: SimJob
    state: JobState
    failure: str | None
    claimed: float | None  # first
    ended: float
    attempts: int
    leases: int

    @property
    def wait(self) -> float:
        """From its arrival to its first claim, or to its end if it never had one."""
        return (self.ended if self.claimed is None else self.claimed) - self.job.arrival


@dataclass(frozen=True, slots=True)
class EngineDeath:
    at: float
    jobs: frozenset[UUID]  # those in the engine


@dataclass(slots=True)
class QueueRun:
    """`events` counts transitions by name, faults by kind, and writes refused by their fence."""

    ends: list[JobEnd] = field(default_factory=list)
    deaths: list[EngineDeath] = field(default_factory=list)
    events: Counter[str] = field(default_factory=Counter)

    def of_flow(self, flow_id: UUID) -> list[JobEnd]:
        return [end for end in self.ends if end.job.flow_id == flow_id]
