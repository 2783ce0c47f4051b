"""An outcome against a rescue, a cancel and an expiry, and a claim against a cancel, in both orders.

Each transaction is held at its commit while the other one comes; the job ends once, or runs once.
"""

from __future__ import annotations

import asyncio
from uuid import UUID

import pytest

from db import replicas, reports, sweeps
from db.claims import claim
from db.objects import Objects
from lanes.job import ClaimedJob
from lanes.lane import Lane
from lanes.report import Finished, stopped
from lanes.usage import Usage
from tests.interleavings.sessions import COMMIT, Session
from tests.world import MODEL, World

USAGE = Usage(input_tokens=90, output_tokens=20)


@pytest.fixture
async def batch(world: World) -> UUID:
    return await world.batch(await world.tenant(), 1)


@pytest.fixture
async def job(world: World, batch: UUID) -> ClaimedJob:
    """The batch's only job, leased to a worker that has been silent for too long since."""
    boot = await world.worker()
    [claimed] = await world.claim(boot, 1)
    await world.run_out(boot)
    return claimed


async def succeed(session: Session, world: World, objects: Objects, job: ClaimedJob) -> set[UUID]:
    report = Finished(job.lease, job.tenant_id, "succeeded", 200, None, b"{}", USAGE, 1, 2)
    return await reports.finish(session.engine, objects, [report], world.policy)


async def rescue(session: Session, world: World) -> int:
    async with session.engine.begin() as connection:
        return sum((await replicas.rescue(connection, sweeps.CHUNK, world.policy)).values())


async def stop(session: Session) -> int:
    async with session.engine.begin() as connection:
        return await sweeps.stop_running(connection)


async def cancel_queued(session: Session, world: World) -> int:
    async with session.engine.begin() as connection:
        return await sweeps.cancel_queued(connection, world.policy)


async def take(session: Session, world: World, boot: UUID) -> list[ClaimedJob]:
    return await claim(
        session.engine, model=MODEL, lane=Lane.BULK, boot_id=boot, free_seats=1, policy=world.policy
    )


async def lose_worker(world: World) -> None:
    async with world.database.begin() as connection:
        await replicas.mark_lost(connection)


async def ask_to_cancel(world: World, batch: UUID) -> None:
    await world.execute("UPDATE batches SET status = 'cancelling' WHERE id = :id", id=batch)


async def test_rescue_first(
    world: World, objects: Objects, job: ClaimedJob, first: Session, second: Session
) -> None:
    """The outcome waits for the rescue and then finds a higher fence: it is dropped."""
    await lose_worker(world)
    committing = first.pause_before(COMMIT)
    async with asyncio.timeout(30), asyncio.TaskGroup() as tasks:
        rescued = tasks.create_task(rescue(first, world))
        await committing.reached.wait()
        ended = tasks.create_task(succeed(second, world, objects, job))
        await second.until_blocked(world.database)
        committing.go_on.set()

    assert (rescued.result(), ended.result()) == (1, set())
    assert await world.states() == {"queued": 1}
    assert await world.rows("SELECT FROM batch_progress") == [], "it was not counted"
    [again] = await world.claim(await world.worker(), 1)
    assert await succeed(second, world, objects, job) == set(), "another worker runs it now"
    assert await succeed(first, world, objects, again) == {again.lease.job_id}


async def test_outcome_before_rescue(
    world: World, objects: Objects, job: ClaimedJob, first: Session, second: Session
) -> None:
    """The rescue passes over the row that the outcome is about to end."""
    await lose_worker(world)
    committing = first.pause_before(COMMIT)
    async with asyncio.timeout(30), asyncio.TaskGroup() as tasks:
        ended = tasks.create_task(succeed(first, world, objects, job))
        await committing.reached.wait()
        assert await rescue(second, world) == 0
        committing.go_on.set()

    assert ended.result() == {job.lease.job_id}
    assert await rescue(second, world) == 0
    assert await world.states() == {"succeeded": 1}
    [total] = await world.rows("SELECT sum(succeeded + unsuccessful) AS ended FROM batch_progress")
    assert total.ended == 1


async def test_cancel_before_outcome(
    world: World, objects: Objects, batch: UUID, job: ClaimedJob, first: Session, second: Session
) -> None:
    """The job had ended already when it was asked to stop: its outcome counts."""
    await ask_to_cancel(world, batch)
    committing = first.pause_before(COMMIT)
    async with asyncio.timeout(30), asyncio.TaskGroup() as tasks:
        asked = tasks.create_task(stop(first))
        await committing.reached.wait()
        ended = tasks.create_task(succeed(second, world, objects, job))
        await second.until_blocked(world.database)
        committing.go_on.set()

    assert (asked.result(), ended.result()) == (1, {job.lease.job_id})
    assert await world.states() == {"succeeded": 1}


async def test_outcome_before_cancel(
    world: World, objects: Objects, batch: UUID, job: ClaimedJob, first: Session, second: Session
) -> None:
    """The cancel waits for the outcome and finds nothing left to stop; a late answer to it is no news."""
    await ask_to_cancel(world, batch)
    committing = first.pause_before(COMMIT)
    async with asyncio.timeout(30), asyncio.TaskGroup() as tasks:
        ended = tasks.create_task(succeed(first, world, objects, job))
        await committing.reached.wait()
        asked = tasks.create_task(stop(second))
        await second.until_blocked(world.database)
        committing.go_on.set()

    assert (ended.result(), asked.result()) == ({job.lease.job_id}, 0)
    answer = stopped(job.lease, job.tenant_id)
    assert await reports.finish(world.database, objects, [answer], world.policy) == set()
    assert await world.states() == {"succeeded": 1}


async def test_claim_before_cancel(world: World, batch: UUID, first: Session, second: Session) -> None:
    """The cancel passes over a job that is being leased, and stops it with the next sweep."""
    boot = await world.worker()
    claiming = first.pause_before(COMMIT)
    async with asyncio.timeout(30), asyncio.TaskGroup() as tasks:
        claimed = tasks.create_task(take(first, world, boot))
        await claiming.reached.wait()
        await ask_to_cancel(world, batch)
        assert await cancel_queued(second, world) == 0
        claiming.go_on.set()

    [job] = claimed.result()
    assert await cancel_queued(second, world) == 0, "it runs now"
    assert await stop(second) == 1
    answer = await replicas.beat(world.database, boot, replicas.ReplicaState.READY, 8, world.policy)
    assert answer.stopping == {job.lease}


async def test_cancel_before_claim(world: World, batch: UUID, first: Session, second: Session) -> None:
    """The claim planned the flow before the cancel came; it passes over what is being ended."""
    boot = await world.worker()
    planned = second.pause_before("FOR NO KEY UPDATE SKIP LOCKED")
    committing = first.pause_before(COMMIT)
    async with asyncio.timeout(30), asyncio.TaskGroup() as tasks:
        claimed = tasks.create_task(take(second, world, boot))
        await planned.reached.wait()
        await ask_to_cancel(world, batch)
        cancelled = tasks.create_task(cancel_queued(first, world))
        await committing.reached.wait()
        planned.go_on.set()
        assert await claimed == []
        committing.go_on.set()

    assert cancelled.result() == 1
    assert await world.states() == {"cancelled": 1}
