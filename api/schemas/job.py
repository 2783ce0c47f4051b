"""The Job object, what may be asked about jobs, and the events of one."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from api.schemas.batch import BatchUsage, InputDetails, OutputDetails
from api.schemas.file import unix
from api.schemas.storable import Storable
from db.jobs import Job
from lanes.ids import Prefix, spell
from lanes.job import JobState
from lanes.record import error_object
from lanes.usage import Usage

LONGEST_WAIT_S = 60


class JobWait(BaseModel):
    wait: Annotated[float, Field(ge=0, le=LONGEST_WAIT_S)] = 0  # seconds, for the end of the job


class JobQuery(BaseModel):
    limit: Annotated[int, Field(ge=1, le=100)] = 20
    after: str | None = None
    state: JobState | None = None
    lane: Literal["p0", "p1", "p2"] | None = None
    batch: str | None = None
    custom_id: Storable | None = None
    created_after: Annotated[int, Field(ge=0, le=253_402_300_799)] | None = None
    created_before: Annotated[int, Field(ge=0, le=253_402_300_799)] | None = None


class JobResponse(BaseModel):
    status_code: int
    body: Any


class JobObject(BaseModel):
    id: str
    object: Literal["job"] = "job"
    endpoint: str
    model: str
    lane: str
    state: str
    batch_id: str | None
    custom_id: str | None
    metadata: dict[str, str] | None
    attempts: int
    created_at: int
    deadline: int | None
    claimed_at: int | None
    started_at: int | None
    ended_at: int | None
    finished_at: int | None
    usage: BatchUsage | None
    response: JobResponse | None  # null in lists: fetch the job to read its answer
    error: dict[str, Any] | None


def job_object(job: Job, stored: bytes | None = None) -> JobObject:
    """`stored`: what is kept of its answer, or of why there is none."""
    response = error = None
    if job.status_code is not None and stored is not None:
        response = JobResponse(status_code=job.status_code, body=json.loads(stored))
    elif job.status_code is None and job.error_code is not None:
        error = error_object(job.error_code, stored)
    return JobObject(
        id=spell(Prefix.JOB, job.id),
        endpoint=job.endpoint,
        model=job.model,
        lane=job.lane.label,
        state=job.state,
        batch_id=None if job.batch_id is None else spell(Prefix.BATCH, job.batch_id),
        custom_id=job.custom_id,
        metadata=None if job.metadata is None else dict(job.metadata),
        attempts=job.attempts,
        created_at=unix(job.created_at),
        deadline=_maybe(job.deadline),
        claimed_at=_maybe(job.claimed_at),
        started_at=_maybe(job.started_at),
        ended_at=_maybe(job.ended_at),
        finished_at=_maybe(job.finished_at),
        usage=None if job.usage is None else _usage(job.usage),
        response=response,
        error=error,
    )


def state_event(public_id: str, state: JobState) -> bytes:
    """One server-sent event."""
    data = json.dumps({"id": public_id, "object": "job.state", "state": state})
    return f"event: state\ndata: {data}\n\n".encode()


def _usage(usage: Usage) -> BatchUsage:
    return BatchUsage(
        input_tokens=usage.input_tokens,
        input_tokens_details=InputDetails(cached_tokens=usage.cached_tokens),
        output_tokens=usage.output_tokens,
        output_tokens_details=OutputDetails(reasoning_tokens=usage.reasoning_tokens),
        total_tokens=usage.input_tokens + usage.output_tokens,
    )


def _maybe(time: datetime | None) -> int | None:
    return None if time is None else unix(time)
