"""Whoever waits for a job is told of its changes, and costs the database nothing while waiting."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from uuid import UUID, uuid4

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from api.watch import Watch
from db import reports
from db.connect import Role, connect, tenant_transaction
from db.job_states import job_states
from db.objects import Objects
from lanes.job import JobState
from lanes.report import Finished
from lanes.usage import Usage
from tests.world import World

PATIENCE_S = 60.0


@pytest.fixture
async def reader(world: World, database_url: str) -> AsyncIterator[AsyncEngine]:
    """One connection as the API role, so that a waiter that held it would lock all others out."""
    engine = connect(database_url, Role.API, connections=1, name="test")
    yield engine
    await engine.dispose()


async def a_job(world: World, tenant_id: UUID) -> UUID:
    await world.batch(tenant_id, 1)
    job_id: UUID = (await world.live())[-1].id
    return job_id


async def test_changes_are_told_up_to_the_end(world: World, reader: AsyncEngine, objects: Objects) -> None:
    tenant_id = await world.tenant()
    job_id, watch = await a_job(world, tenant_id), Watch(reader)

    told = asyncio.create_task(watch.changed(tenant_id, job_id, JobState.QUEUED, PATIENCE_S))
    [job] = await world.claim(await world.worker(), 1)
    assert await told is JobState.RUNNING

    told = asyncio.create_task(watch.changed(tenant_id, job_id, JobState.RUNNING, PATIENCE_S))
    report = Finished(job.lease, tenant_id, "succeeded", 200, None, b"{}", Usage(), 1, 2)
    await reports.finish(world.database, objects, [report], world.policy)
    assert await told is JobState.SUCCEEDED


async def test_a_change_before_the_wait_is_told_too(world: World, reader: AsyncEngine) -> None:
    tenant_id = await world.tenant()
    job_id = await a_job(world, tenant_id)
    await world.claim(await world.worker(), 1)
    assert await Watch(reader).changed(tenant_id, job_id, JobState.QUEUED, PATIENCE_S) is JobState.RUNNING


async def test_many_waiters_leave_the_connection_to_others(world: World, reader: AsyncEngine) -> None:
    tenant_id = await world.tenant()
    job_id, watch = await a_job(world, tenant_id), Watch(reader)
    waiting = [
        asyncio.create_task(watch.changed(tenant_id, job_id, JobState.QUEUED, PATIENCE_S)) for _ in range(50)
    ]
    for _ in range(10):
        async with tenant_transaction(reader, tenant_id) as connection:
            assert await job_states(connection, tenant_id, [job_id]) == {job_id: JobState.QUEUED}
    await world.claim(await world.worker(), 1)
    assert set(await asyncio.gather(*waiting)) == {JobState.RUNNING}


async def test_one_that_is_not_told_in_time_sees_what_it_saw(world: World, reader: AsyncEngine) -> None:
    tenant_id = await world.tenant()
    job_id, watch = await a_job(world, tenant_id), Watch(reader)
    assert await watch.changed(tenant_id, job_id, JobState.QUEUED, 0.01) is JobState.QUEUED
    await world.claim(await world.worker(), 1)
    assert await watch.changed(tenant_id, job_id, JobState.QUEUED, PATIENCE_S) is JobState.RUNNING


async def test_jobs_of_others_and_of_nobody_are_alike(world: World, reader: AsyncEngine) -> None:
    theirs = await a_job(world, await world.tenant("theirs"))
    tenant_id, watch = await world.tenant(), Watch(reader)
    for job_id in (theirs, uuid4()):
        assert await watch.changed(tenant_id, job_id, JobState.QUEUED, PATIENCE_S) is None
