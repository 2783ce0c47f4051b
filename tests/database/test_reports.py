"""Reports: a job ends once, under its fence, with its outcome, its counts and its charge."""

from __future__ import annotations

import pytest

from db import replicas, reports
from db.objects import Objects
from db.reports import INLINE_BYTES
from lanes import failure
from lanes.job import ClaimedJob, Lease
from lanes.report import Finished, GivenBack, stopped
from lanes.usage import Usage
from tests.world import World

USAGE = Usage(input_tokens=90, cached_tokens=30, output_tokens=20)


def succeeded(job: ClaimedJob, body: bytes = b"{}") -> Finished:
    return Finished(job.lease, job.tenant_id, "succeeded", 200, None, body, USAGE, 5, 50)


async def one_running(world: World, lines: int = 1) -> ClaimedJob:
    await world.batch(await world.tenant(), lines)
    [job] = await world.claim(await world.worker(), 1)
    return job


async def test_finishing_moves_the_row_and_counts_it(world: World, objects: Objects) -> None:
    job = await one_running(world)

    ended = await reports.finish(world.database, objects, [succeeded(job, b'{"a": 1}')], world.policy)

    assert ended == {job.lease.job_id}
    [row] = await world.rows(
        "SELECT d.*, o.body, claimed_at <= started_at AND started_at < ended_at AS in_order"
        " FROM jobs_done d JOIN outcomes o ON o.job_id = d.id"
    )
    assert (row.state, row.status_code, row.body, row.line) == ("succeeded", 200, b'{"a": 1}', 1)
    assert row.in_order
    assert await world.live() == []
    [progress] = await world.rows("SELECT * FROM batch_progress")
    assert (progress.succeeded, progress.unsuccessful, progress.output_tokens) == (1, 0, 20)
    deltas = {row.kind: row.cost for row in await world.rows("SELECT kind, cost FROM account_deltas")}
    # charged 100 + 2 * 50; really 60 uncached + 2 * 20
    assert deltas == {"charge": 200.0, "settle": -100.0}


async def test_a_repeat_after_an_unknown_commit_changes_nothing(world: World, objects: Objects) -> None:
    job = await one_running(world)
    await reports.finish(world.database, objects, [succeeded(job)], world.policy)

    assert await reports.finish(world.database, objects, [succeeded(job)], world.policy) == set()
    assert len(await world.rows("SELECT FROM jobs_done")) == 1


async def test_a_stale_fence_writes_nothing(world: World, objects: Objects) -> None:
    job = await one_running(world)
    await reports.give_back(
        world.database, [GivenBack(job.lease, job.tenant_id, 0, blamed=False)], world.policy
    )
    [again] = await world.claim(await world.worker(), 1)

    assert again.lease == Lease(job.lease.job_id, job.lease.fence + 2)
    zombie = await reports.finish(world.database, objects, [succeeded(job)], world.policy)
    assert zombie == set()
    zombie = await reports.give_back(
        world.database, [GivenBack(job.lease, job.tenant_id, 0, blamed=True)], world.policy
    )
    assert zombie == set()
    assert await world.states() == {"running": 1}
    ended = await reports.finish(world.database, objects, [succeeded(again)], world.policy)
    assert ended == {job.lease.job_id}


@pytest.mark.parametrize("blamed", [False, True])
async def test_giving_back_refunds_and_counts_only_blame(world: World, blamed: bool) -> None:
    job = await one_running(world)

    back = GivenBack(job.lease, job.tenant_id, delay_ms=60_000 if blamed else 0, blamed=blamed)
    await reports.give_back(world.database, [back], world.policy)

    [row] = await world.live()
    assert (row.state, row.attempts, row.not_before is not None) == ("queued", int(blamed), blamed)
    assert (row.boot_id, row.claimed_at) == (None, None)
    [total] = await world.rows("SELECT sum(cost) AS cost FROM account_deltas")
    assert total.cost == 0


async def test_stopped_is_believed_only_of_a_job_that_was_asked(world: World, objects: Objects) -> None:
    job = await one_running(world)
    answer = stopped(job.lease, job.tenant_id)

    assert await reports.finish(world.database, objects, [answer], world.policy) == set()
    await world.execute("UPDATE jobs SET state = 'cancelling', ending = 'cancelled'")
    assert await reports.finish(world.database, objects, [answer], world.policy) == {job.lease.job_id}
    [row] = await world.rows("SELECT state, error_code FROM jobs_done")
    assert (row.state, row.error_code) == ("cancelled", failure.CANCELLED.code)


async def test_an_answer_that_came_before_the_stop_counts(world: World, objects: Objects) -> None:
    job = await one_running(world)
    await world.execute("UPDATE jobs SET state = 'cancelling', ending = 'cancelled'")

    await reports.finish(world.database, objects, [succeeded(job)], world.policy)

    assert await world.states() == {"succeeded": 1}


async def test_a_large_outcome_goes_to_the_store_first(world: World, objects: Objects) -> None:
    job = await one_running(world)
    body = b'"' + b"x" * INLINE_BYTES + b'"'

    await reports.finish(world.database, objects, [succeeded(job, body)], world.policy)

    [row] = await world.rows(
        "SELECT body, byte_offset, byte_length, object_key FROM outcomes JOIN segments ON id = segment_id"
    )
    assert row.body is None
    assert await objects.read_ranges(row.object_key, [(row.byte_offset, row.byte_length)]) == [body]


async def test_the_heartbeat_tells_what_is_held_and_what_must_stop(world: World) -> None:
    await world.batch(await world.tenant(), 2)
    boot = await world.worker()
    first, second = await world.claim(boot, 2)
    await world.execute(
        "UPDATE jobs SET state = 'cancelling', ending = 'expired' WHERE id = :id", id=first.lease.job_id
    )

    answer = await replicas.beat(world.database, boot, replicas.ReplicaState.READY, 8, world.policy)

    assert answer.alive
    assert answer.held == {first.lease, second.lease}
    assert answer.stopping == {first.lease}
