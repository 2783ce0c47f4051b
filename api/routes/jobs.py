"""/v1/jobs"""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import StreamingResponse

from api.auth import Caller
from api.schemas.job import JobObject, JobQuery, JobWait, job_object, state_event
from api.schemas.page import PageObject, page_object
from api.services import Use
from api.usecases.batches import batch_uuid
from api.usecases.jobs import first_state, job_uuid, page_of_jobs, show_job, states
from db.jobs import JobFilter
from lanes.lane import Lane

router = APIRouter(prefix="/v1/jobs")

# Proxies must neither keep the events back nor answer from memory.
_STREAM = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
_LANES = {lane.label: lane for lane in Lane}


@router.get("")
async def list_all(
    query: Annotated[JobQuery, Query()], services: Use, caller: Caller
) -> PageObject[JobObject]:
    after = None if query.after is None else job_uuid(query.after, "after")
    page = await page_of_jobs(services, caller.tenant_id, _filter(query), query.limit, after)
    return page_object([job_object(job) for job in page.items], page.has_more)


@router.get("/{job_id}")
async def show(job_id: str, query: Annotated[JobWait, Query()], services: Use, caller: Caller) -> JobObject:
    return job_object(*await show_job(services, caller.tenant_id, job_id, query.wait))


@router.get("/{job_id}/events")
async def events(job_id: str, services: Use, caller: Caller) -> StreamingResponse:
    first = await first_state(services, caller.tenant_id, job_id)

    async def told() -> AsyncIterator[bytes]:
        async for state in states(services, caller.tenant_id, job_id, first):
            yield b": still here\n\n" if state is None else state_event(job_id, state)

    return StreamingResponse(told(), media_type="text/event-stream", headers=_STREAM)


def _filter(query: JobQuery) -> JobFilter:
    return JobFilter(
        state=query.state,
        lane=None if query.lane is None else _LANES[query.lane],
        batch_id=None if query.batch is None else batch_uuid(query.batch, "batch"),
        custom_id=query.custom_id,
        created_after=_time(query.created_after),
        created_before=_time(query.created_before),
    )


def _time(seconds: int | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)
