"""Sweeps: what happens to jobs that nobody works on."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from db import replicas, reports, sweeps
from db.objects import Objects
from lanes.report import Finished
from lanes.usage import Usage
from tests.world import World


async def rescue(world: World) -> dict[str, int]:
    async with world.database.begin() as connection:
        await replicas.mark_lost(connection)
    async with world.database.begin() as connection:
        return await replicas.rescue(connection, sweeps.CHUNK, world.policy)


async def test_jobs_of_a_silent_worker_are_given_out_again_and_it_can_write_no_more(
    world: World, objects: Objects
) -> None:
    await world.batch(await world.tenant(), 3)
    silent, alive = await world.worker(), await world.worker()
    lost = await world.claim(silent, 2)
    kept = await world.claim(alive, 1)
    await world.run_out(silent)

    assert await rescue(world) == {"toy": 2}
    assert await world.states() == {"queued": 2, "running": 1}
    fences = {row.state: row.fence for row in await world.live()}
    assert fences == {"queued": 2, "running": 1}, "the fence rises with the loss already"
    report = [
        Finished(job.lease, job.tenant_id, "succeeded", 200, None, b"{}", Usage(), 1, 2)
        for job in [*lost, *kept]
    ]
    ended = await reports.finish(world.database, objects, report, world.policy)
    assert ended == {kept[0].lease.job_id}
    beat = await replicas.beat(world.database, silent, replicas.ReplicaState.READY, 8, world.policy)
    assert not beat.alive
    again = await world.claim(alive, 2)
    assert {job.lease.job_id for job in again} == {job.lease.job_id for job in lost}
    assert all(job.attempts == 0 for job in again), "losing a worker is nobody's blame"


async def test_a_worker_that_left_in_order_is_treated_alike(world: World) -> None:
    await world.batch(await world.tenant(), 1)
    boot = await world.worker()
    await world.claim(boot, 1)
    await replicas.retire(world.database, boot)

    assert await rescue(world) == {"toy": 1}


async def test_a_live_worker_keeps_its_jobs(world: World) -> None:
    await world.batch(await world.tenant(), 1)
    await world.claim(await world.worker(), 1)

    assert await rescue(world) == {}
    assert await world.states() == {"running": 1}


async def test_a_stop_whose_worker_is_gone_ends_as_asked(world: World) -> None:
    await world.batch(await world.tenant(), 2)
    boot = await world.worker()
    first, second = await world.claim(boot, 2)
    for job, ending in ((first, "cancelled"), (second, "expired")):
        await world.execute(
            "UPDATE jobs SET state = 'cancelling', ending = :ending WHERE id = :id",
            id=job.lease.job_id, ending=ending,
        )  # fmt: skip
    async with world.database.begin() as connection:
        assert await sweeps.bury(connection, world.policy) == 0, "its worker may still answer"
    await replicas.retire(world.database, boot)

    assert await rescue(world) == {}, "a job that was asked to stop never runs again"
    async with world.database.begin() as connection:
        assert await sweeps.bury(connection, world.policy) == 2
    assert await world.states() == {"cancelled": 1, "expired": 1}
    [total] = await world.rows("SELECT sum(cost) AS cost FROM account_deltas")
    assert total.cost == 0


async def test_past_the_deadline_queued_jobs_end_and_running_ones_are_asked_to(world: World) -> None:
    await world.batch(await world.tenant(), 3)
    await world.claim(await world.worker(), 1)
    await world.execute("UPDATE jobs SET deadline = clock_timestamp() - interval '1 s'")

    async with world.database.begin() as connection:
        assert await sweeps.expire_queued(connection, world.policy) == 2
    async with world.database.begin() as connection:
        assert await sweeps.stop_running(connection) == 1

    assert await world.states() == {"expired": 2, "cancelling": 1}
    codes = await world.rows("SELECT DISTINCT error_code FROM jobs_done")
    assert [row.error_code for row in codes] == ["batch_expired"]
    [progress] = await world.rows("SELECT unsuccessful FROM batch_progress")
    assert progress.unsuccessful == 2


async def test_cancelling_a_batch_reaches_its_jobs_and_no_others(world: World) -> None:
    world.policy = replace(world.policy, quantum_cost=0)
    tenant = await world.tenant()
    doomed, other = await world.batch(tenant, 3), await world.batch(tenant, 1)
    boot = await world.worker()
    await world.claim(boot, 2)  # one of each flow
    await world.execute("UPDATE batches SET status = 'cancelling' WHERE id = :id", id=doomed)

    async with world.database.begin() as connection:
        assert await sweeps.cancel_queued(connection, world.policy) == 2
    async with world.database.begin() as connection:
        assert await sweeps.stop_running(connection) == 1

    states = await world.rows("SELECT state, batch_id FROM jobs")
    assert {(row.state, row.batch_id) for row in states} == {("cancelling", doomed), ("running", other)}


async def test_a_delayed_job_is_woken_when_its_time_has_come(world: World) -> None:
    await world.batch(await world.tenant(), 2)
    await world.execute(
        "UPDATE jobs SET not_before = clock_timestamp() + line * interval '1 h' - interval '90 min'"
    )

    async with world.database.begin() as connection:
        assert await sweeps.wake_delayed(connection) == 1
    claimed = await world.claim(await world.worker(), 2)
    assert len(claimed) == 1


async def test_progress_is_folded_once(world: World) -> None:
    await world.batch(await world.tenant(), 4, window=timedelta(seconds=-1))
    async with world.database.begin() as connection:
        await sweeps.expire_queued(connection, world.policy)

    async with world.database.begin() as connection:
        assert await sweeps.fold_progress(connection) == 1
    async with world.database.begin() as connection:
        assert await sweeps.fold_progress(connection) == 0
    [batch] = await world.rows("SELECT unsuccessful FROM batches")
    assert batch.unsuccessful == 4


async def test_what_is_late_and_cancelled_ends_as_its_batch_does(world: World) -> None:
    tenant = await world.tenant()
    doomed, late = await world.batch(tenant, 1), await world.batch(tenant, 1)
    await world.claim(await world.worker(), 2)
    await world.execute("UPDATE jobs SET deadline = clock_timestamp() - interval '1 s'")
    await world.execute("UPDATE batches SET status = 'cancelling' WHERE id = :id", id=doomed)

    async with world.database.begin() as connection:
        assert await sweeps.stop_running(connection) == 2

    rows = await world.rows("SELECT batch_id, ending FROM jobs")
    assert {row.batch_id: row.ending for row in rows} == {doomed: "cancelled", late: "expired"}
