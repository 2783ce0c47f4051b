"""A job: one request, from its acceptance to its one terminal state."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from uuid import UUID

from lanes.lane import Lane


class JobState(StrEnum):
    """Every state; the first three are live rows of `jobs`, the rest rows of `jobs_done`."""

    QUEUED = "queued"
    RUNNING = "running"
    CANCELLING = "cancelling"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    EXPIRED = "expired"
    CANCELLED = "cancelled"

    @property
    def is_terminal(self) -> bool:
        return self in TERMINAL


LIVE = frozenset({JobState.QUEUED, JobState.RUNNING, JobState.CANCELLING})
LEASED = frozenset({JobState.RUNNING, JobState.CANCELLING})
TERMINAL = frozenset(JobState) - LIVE


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to move one job. A write that carries an old fence changes nothing."""

    job_id: UUID
    fence: int


@dataclass(frozen=True, slots=True)
class ClaimedJob:
    """A job as a worker receives it: the lease, where its body lies, and what limits it."""

    lease: Lease
    tenant_id: UUID
    flow_id: UUID
    batch_id: UUID | None
    model: str
    endpoint: str
    lane: Lane
    object_key: str  # the segment that holds the body
    byte_offset: int
    byte_length: int
    input_tokens: int  # estimated
    output_tokens: int  # predicted
    attempts: int  # failed attempts so far that count against the budget
    remaining_seconds: float  # to the deadline, at the moment of the claim
    suspects: UUID | None = None  # the group with which it runs alone, after the death of an engine
