"""The queue as a client, a worker and the maintenance see it: one port, two sides.

The oracle keeps it in memory, `PostgresQueue` with the product's own functions. Both are driven
with the same names and must answer alike. Time is told by `pass_time`, never waited for.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Protocol
from uuid import UUID

from lanes.batch import BatchStatus
from lanes.failure import Failure
from lanes.job import JobState
from lanes.policy import DEFAULT

# Times are whole units and clocks move by whole units, so that what a test itself takes decides
# nothing. Costs are whole numbers and weights powers of two: virtual times are then exact.
UNIT = 100.0
POLICY = replace(
    DEFAULT,
    slice_jobs=6,
    accounts_per_seat=64,  # every account is looked at: which ones a limit leaves out is no rule
    flows_per_tenant=64,
    quantum_cost=64.0,
    turnstile_seconds=0.0,  # the floor is exact
    age_seconds=3 * UNIT,
    lease_seconds=2 * UNIT,
    backoff_seconds=4 * UNIT,
    backoff_limit_seconds=8 * UNIT,
    at_risk_share=0.0,  # follows from a measured rate, which the oracle cannot have
    attempts=3,
)


@dataclass(frozen=True, slots=True, order=True)
class JobName:
    """A job by the flow (here always a batch) and the line that it is."""

    flow: UUID
    line: int


@dataclass(frozen=True, slots=True, order=True)
class Hold:
    """A lease on a job, by the job's name."""

    job: JobName
    fence: int


@dataclass(frozen=True, slots=True)
class Line:
    """A job to be queued; `window` is the time to its deadline in units."""

    input_tokens: int
    output_tokens: int
    window: int
    rank: int = 0


@dataclass(frozen=True, slots=True)
class Used:
    """Tokens that an attempt really spent."""

    input_tokens: int
    output_tokens: int


@dataclass(frozen=True, slots=True)
class Beat:
    """What a heartbeat answers."""

    alive: bool
    held: frozenset[Hold] = frozenset()
    stopping: frozenset[Hold] = frozenset()


class Sweep(StrEnum):
    """The steps of maintenance, each of which moves jobs."""

    RESCUE = "rescue"  # mark the silent workers lost and give out what they held
    BURY = "bury"
    EXPIRE = "expire"
    CANCEL = "cancel"
    STOP = "stop"
    WAKE = "wake"
    AGE = "age"
    FOLD = "fold"


@dataclass(frozen=True, slots=True)
class JobView:
    """A job, live or ended."""

    state: JobState
    fence: int
    attempts: int = 0
    boot: UUID | None = None  # these of a live job only
    delayed: bool = False
    suspects: UUID | None = None


@dataclass(frozen=True, slots=True)
class FlowView:
    """A batch; its counts are those that a reader would be told."""

    status: BatchStatus
    total: int
    succeeded: int
    unsuccessful: int
    output_lines: tuple[int, ...] = ()  # of a closed one: the lines of its two files
    error_lines: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class View:
    """Everything that both sides must agree on. Virtual times include what is not folded yet."""

    jobs: dict[JobName, JobView]
    flows: dict[UUID, FlowView]
    live_workers: frozenset[UUID]
    active: frozenset[tuple[UUID, UUID | None]]  # (tenant, flow), None for the tenant itself
    vtimes: dict[tuple[UUID, UUID | None], float]


class Queue(Protocol):
    """One lane of one model. Every method that moves a job says whether it did."""

    async def tenant(self, tenant: UUID, weight: float) -> None: ...

    async def worker(self, boot: UUID) -> None:
        """A worker that is ready and holds nothing."""

    async def enqueue(self, tenant: UUID, flow: UUID, lines: Sequence[Line]) -> None:
        """A batch in progress; its lines count from 1."""

    async def claim(self, boot: UUID, seats: int) -> Collection[Hold]: ...

    async def claim_suspects(self, boot: UUID) -> Collection[Hold]:
        """One whole group of jobs whose engine died, for an engine that is empty."""

    async def beat(self, boot: UUID) -> Beat: ...

    async def retire(self, boot: UUID) -> None:
        """The worker leaves in order."""

    async def succeed(self, hold: Hold, used: Used) -> bool: ...

    async def fail(self, hold: Hold, reason: Failure) -> bool:
        """For good."""

    async def retry(self, hold: Hold, units: int) -> bool:
        """Back to the queue, blamed, to wait for so many units."""

    async def release(self, hold: Hold) -> bool:
        """Back to the queue at once, without blame."""

    async def suspect(self, hold: Hold, group: UUID) -> bool:
        """Back to the queue as one of a group, because its engine died under several jobs."""

    async def stopped(self, hold: Hold) -> bool:
        """The answer to a request to stop."""

    async def cancel(self, flow: UUID) -> bool:
        """Ask for the end of a batch."""

    async def sweep(self, step: Sweep) -> int:
        """One step of maintenance; how many jobs it moved."""

    async def close_ended(self) -> int:
        """Finalise every batch without live jobs; how many."""

    async def pass_time(self, units: int) -> None: ...

    async def view(self) -> View: ...
