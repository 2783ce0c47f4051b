"""What can be read of jobs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import NoReturn
from uuid import UUID

from api.refusals import NotFound
from api.services import Services
from db.connect import tenant_transaction
from db.jobs import Job, JobFilter, get_job, list_jobs, outcome
from db.page import Page
from lanes.ids import Prefix, parse
from lanes.job import JobState

QUIET_SECONDS = 10.0  # after so long without a change a watcher is shown that the connection lives


async def show_job(
    services: Services, tenant_id: UUID, public_id: str, wait_s: float = 0
) -> tuple[Job, bytes | None]:
    """A job and what is stored of its answer; waits up to so long for its end.

    Raises:
        NotFound: no such job of that tenant.
    """
    job = await _job(services, tenant_id, public_id)
    clock = asyncio.get_running_loop().time
    until, state = clock() + wait_s, job.state
    while not state.is_terminal and (left := until - clock()) > 0:
        state = await services.watch.changed(tenant_id, job.id, state, left) or _gone(public_id)
    if state is not job.state:
        job = await _job(services, tenant_id, public_id)
    async with tenant_transaction(services.engine, tenant_id) as connection:
        stored = await outcome(connection, services.objects, tenant_id, job.id)
    return job, stored


async def page_of_jobs(
    services: Services, tenant_id: UUID, wanted: JobFilter, limit: int, after: UUID | None
) -> Page[Job]:
    async with tenant_transaction(services.engine, tenant_id) as connection:
        return await list_jobs(connection, tenant_id, wanted, limit, after)


async def first_state(services: Services, tenant_id: UUID, public_id: str) -> JobState:
    """Raises: NotFound."""
    return (await _job(services, tenant_id, public_id)).state


async def states(
    services: Services, tenant_id: UUID, public_id: str, first: JobState
) -> AsyncIterator[JobState | None]:
    """The state, each later one as it is seen, up to the end; None for every while without a change."""
    state, job_id = first, job_uuid(public_id)
    yield state
    while not state.is_terminal:
        now = await services.watch.changed(tenant_id, job_id, state, QUIET_SECONDS)
        if now is None:
            return  # erased meanwhile: there is nothing more to tell
        yield None if now is state else now
        state = now


def job_uuid(public_id: str, param: str = "job_id") -> UUID:
    """The row behind a public id.

    Raises:
        NotFound: no job can have that id.
    """
    job_id = parse(Prefix.JOB, public_id)
    return _gone(public_id, param) if job_id is None else job_id


async def _job(services: Services, tenant_id: UUID, public_id: str) -> Job:
    job_id = job_uuid(public_id)
    async with tenant_transaction(services.engine, tenant_id) as connection:
        return await get_job(connection, tenant_id, job_id) or _gone(public_id)


def _gone(public_id: str, param: str = "job_id") -> NoReturn:
    raise NotFound("job", public_id, param)
