"""Enqueue against deactivation: whichever comes first, the queued job is found.

A design with ON CONFLICT DO NOTHING lost it: the enqueue saw an active account and wrote nothing,
the sweeper saw no job and set it inactive, and both committed.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from uuid import UUID

import pytest
from sqlalchemy import func, insert
from sqlalchemy.ext.asyncio import AsyncConnection

from db.accounts import activate
from db.flows import end_flow
from db.tables import batches, files, jobs, segments
from lanes.lane import Lane
from tests.interleavings.sessions import COMMIT, Session
from tests.world import MODEL, World


@pytest.fixture
async def tenant(world: World) -> UUID:
    return await world.tenant()


@pytest.fixture
async def ending(world: World, tenant: UUID) -> UUID:
    """The tenant's only flow, whose last job has ended: only its account is left."""
    flow = await world.batch(tenant, 1)
    await world.execute("DELETE FROM jobs")
    return flow


async def end(session: Session, tenant: UUID, flow: UUID) -> None:
    async with session.engine.begin() as connection:
        await end_flow(connection, tenant, flow)


async def enqueue(session: Session, tenant: UUID) -> None:
    """One more batch of the tenant, in one transaction as ingest makes it."""
    async with session.engine.begin() as connection:
        flow = await _queue_one(connection, tenant)
        await activate(connection, MODEL, Lane.BULK, tenant, flow)


async def _queue_one(connection: AsyncConnection, tenant: UUID) -> UUID:
    file = await connection.execute(
        insert(files)
        .values(tenant_id=tenant, purpose="batch", filename="a.jsonl", bytes=1, object_key="second")
        .returning(files.c.id)
    )
    until = func.clock_timestamp() + timedelta(hours=1)
    batch = await connection.execute(
        insert(batches)
        .values(
            tenant_id=tenant, endpoint="/v1/completions", input_file_id=file.scalar_one(),
            completion_window="1h", expires_at=until, status="in_progress", total=1,
        )
        .returning(batches.c.id)
    )  # fmt: skip
    flow: UUID = batch.scalar_one()
    segment = await connection.execute(
        insert(segments)
        .values(tenant_id=tenant, batch_id=flow, kind="input", object_key="second", bytes=1)
        .returning(segments.c.id)
    )
    await connection.execute(
        insert(jobs).values(
            tenant_id=tenant, flow_id=flow, batch_id=flow, segment_id=segment.scalar_one(), ord=1, line=1,
            deadline=until, bucket=1, byte_offset=0, byte_length=1, input_tokens=1, output_tokens=1,
            lane=int(Lane.BULK), model=MODEL, endpoint="/v1/completions",
        )
    )  # fmt: skip
    return flow


async def assert_found(world: World) -> None:
    assert await world.states() == {"queued": 1}
    assert len(await world.claim(await world.worker(), 8)) == 1, "nobody ever finds the job"


async def test_enqueue_first(
    world: World, tenant: UUID, ending: UUID, first: Session, second: Session
) -> None:
    committing = first.pause_before(COMMIT)
    async with asyncio.timeout(30), asyncio.TaskGroup() as tasks:
        tasks.create_task(enqueue(first, tenant))
        await committing.reached.wait()
        tasks.create_task(end(second, tenant, ending))
        await second.until_blocked(world.database)
        committing.go_on.set()

    await assert_found(world)


async def test_deactivation_first(
    world: World, tenant: UUID, ending: UUID, first: Session, second: Session
) -> None:
    committing = first.pause_before(COMMIT)
    async with asyncio.timeout(30), asyncio.TaskGroup() as tasks:
        tasks.create_task(end(first, tenant, ending))
        await committing.reached.wait()
        tasks.create_task(enqueue(second, tenant))
        await second.until_blocked(world.database)
        committing.go_on.set()

    await assert_found(world)


async def test_both_at_once_in_the_middle(
    world: World, tenant: UUID, ending: UUID, first: Session, second: Session
) -> None:
    """The flow's account is gone and the tenant's not yet looked at when the enqueue comes and ends."""
    looking = first.pause_before("lane_accounts.active")
    async with asyncio.timeout(30), asyncio.TaskGroup() as tasks:
        tasks.create_task(end(first, tenant, ending))
        await looking.reached.wait()
        await enqueue(second, tenant)
        looking.go_on.set()

    await assert_found(world)
