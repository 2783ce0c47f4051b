"""Jobs as the api shows them: live or ended, one by one or in pages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, Row, Select, Table, cast, null, select, union_all
from sqlalchemy.ext.asyncio import AsyncConnection

from db.objects import Objects
from db.page import Page
from db.tables import job_requests, jobs, jobs_done, outcomes, segments
from lanes.job import JobState
from lanes.lane import Lane
from lanes.usage import Usage

_BOTH = (
    "id", "batch_id", "model", "endpoint", "lane", "state", "custom_id", "attempts", "created_at",
    "claimed_at",
)  # fmt: skip
_ENDED = (
    "started_at", "ended_at", "finished_at", "status_code", "error_code", "input_tokens", "cached_tokens",
    "output_tokens", "reasoning_tokens",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Job:
    id: UUID
    batch_id: UUID | None
    model: str
    endpoint: str
    lane: Lane
    state: JobState
    custom_id: str | None
    metadata: Mapping[str, str] | None
    attempts: int  # that failed and count against the budget
    created_at: datetime
    deadline: datetime | None  # of a job that lives, or that was sent by itself
    claimed_at: datetime | None
    started_at: datetime | None  # this and what follows is known once the job has ended
    ended_at: datetime | None
    finished_at: datetime | None
    status_code: int | None
    error_code: str | None
    usage: Usage | None


@dataclass(frozen=True, slots=True)
class JobFilter:
    state: JobState | None = None
    lane: Lane | None = None
    batch_id: UUID | None = None
    custom_id: str | None = None
    created_after: datetime | None = None
    created_before: datetime | None = None


async def get_job(connection: AsyncConnection, tenant_id: UUID, job_id: UUID) -> Job | None:
    """A job of the tenant; one statement, so that one that ends meanwhile is not missed."""
    both = (_select(table, tenant_id).where(table.c.id == job_id) for table in (jobs, jobs_done))
    row = (await connection.execute(union_all(*both))).one_or_none()
    return None if row is None else _job(row)


async def list_jobs(
    connection: AsyncConnection, tenant_id: UUID, wanted: JobFilter, limit: int, after: UUID | None
) -> Page[Job]:
    """At most `limit` jobs, the newest first, from behind the id `after`: ids sort by creation."""
    pages = []
    for table in (jobs, jobs_done):
        query = _select(table, tenant_id).where(*_conditions(table, wanted))
        if after is not None:
            query = query.where(table.c.id < after)
        pages.append(select(query.order_by(table.c.id.desc()).limit(limit + 1).subquery()))
    both = union_all(*pages).subquery()
    rows = (await connection.execute(select(both).order_by(both.c.id.desc()).limit(limit + 1))).all()
    return Page(tuple(_job(row) for row in rows[:limit]), len(rows) > limit)


async def outcome(
    connection: AsyncConnection, objects: Objects, tenant_id: UUID, job_id: UUID
) -> bytes | None:
    """What is stored of an ended job's answer, or of the error that an input line was refused for."""
    found = await connection.execute(
        select(outcomes.c.body, outcomes.c.byte_offset, outcomes.c.byte_length, segments.c.object_key)
        .outerjoin(segments, segments.c.id == outcomes.c.segment_id)
        .where(outcomes.c.tenant_id == tenant_id, outcomes.c.job_id == job_id)
    )
    row = found.one_or_none()
    if row is None or row.object_key is None:
        return None if row is None else row.body
    [body] = await objects.read_ranges(row.object_key, [(row.byte_offset, row.byte_length)])
    return body


def _select(table: Table, tenant_id: UUID) -> Select[Any]:
    ended = table is jobs_done
    deadline = job_requests.c.deadline if ended else table.c.deadline
    return (
        select(
            *(table.c[name] for name in _BOTH),
            *(
                table.c[name] if ended else cast(null(), jobs_done.c[name].type).label(name)
                for name in _ENDED
            ),
            deadline.label("deadline"),
            job_requests.c.metadata.label("metadata"),
        )
        .outerjoin(job_requests, job_requests.c.job_id == table.c.id)
        .where(table.c.tenant_id == tenant_id, job_requests.c.deleted_at.is_(None))
    )


def _conditions(table: Table, wanted: JobFilter) -> list[ColumnElement[bool]]:
    same = {
        "state": wanted.state,
        "lane": wanted.lane,
        "batch_id": wanted.batch_id,
        "custom_id": wanted.custom_id,
    }
    conditions = [table.c[name] == value for name, value in same.items() if value is not None]
    if wanted.created_after is not None:
        conditions.append(table.c.created_at > wanted.created_after)
    if wanted.created_before is not None:
        conditions.append(table.c.created_at < wanted.created_before)
    return conditions


def _job(row: Row[Any]) -> Job:
    values = dict(row._mapping)
    tokens = {name: values.pop(name) for name in _ENDED if name.endswith("_tokens")}
    values |= {"lane": Lane(row.lane), "state": JobState(row.state)}
    return Job(**values, usage=Usage(**tokens) if row.finished_at is not None else None)
