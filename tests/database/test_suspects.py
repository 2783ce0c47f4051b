"""Suspects: after the death of an engine its jobs wait in groups, and each runs with an engine to itself."""

from __future__ import annotations

import asyncio
from uuid import UUID, uuid4

from db import replicas, reports, sweeps
from db.claims import claim_suspects, suspects_wait_seconds
from lanes.job import ClaimedJob
from lanes.report import GivenBack
from tests.world import MODEL, World


async def suspect(world: World, jobs: list[ClaimedJob], group: UUID) -> None:
    backs = [GivenBack(job.lease, job.tenant_id, 0, blamed=False, suspects=group) for job in jobs]
    assert len(await reports.give_back(world.database, backs, world.policy)) == len(jobs)


async def take(world: World, boot: UUID) -> list[ClaimedJob]:
    return await claim_suspects(world.database, model=MODEL, boot_id=boot, policy=world.policy)


async def two_groups(world: World, lines: int = 8) -> tuple[UUID, UUID, UUID]:
    """All jobs of a batch as two groups of suspects, the older one first; and a worker."""
    await world.batch(await world.tenant(), lines)
    boot = await world.worker()
    jobs = await world.claim(boot, lines)
    older, newer = uuid4(), uuid4()
    await suspect(world, jobs[: lines // 2], older)
    await suspect(world, jobs[lines // 2 :], newer)
    return older, newer, boot


async def test_claims_pass_suspects_over_and_a_group_is_claimed_whole(world: World) -> None:
    older, _, boot = await two_groups(world)

    assert await world.claim(boot, 8) == []
    group = await take(world, boot)

    assert {job.suspects for job in group} == {older}
    assert len(group) == 4
    assert {(job.lease.fence, job.attempts) for job in group} == {(3, 0)}, "claimed, given back, claimed"
    [costs] = await world.rows("SELECT sum(cost) AS total FROM account_deltas")
    assert costs.total == 4 * 200, "refunded when given back, charged when claimed"


async def test_workers_that_race_for_a_group_never_share_it(world: World) -> None:
    await two_groups(world)
    boots = [await world.worker() for _ in range(6)]

    for _ in range(3):
        taken = await asyncio.gather(*(take(world, boot) for boot in boots))
        assert all(len(group) in (0, 4) for group in taken)
    assert await world.states() == {"running": 8}


async def test_how_long_the_oldest_group_waits(world: World) -> None:
    assert await suspects_wait_seconds(world.database, MODEL) is None
    older, newer, boot = await two_groups(world)
    await world.execute(
        "UPDATE jobs SET suspected_at = clock_timestamp() - interval '1 h' WHERE suspects = :group",
        group=newer,
    )

    waited = await suspects_wait_seconds(world.database, MODEL)
    assert waited is not None
    assert 3600 <= waited < 3700
    assert {job.suspects for job in await take(world, boot)} == {newer}
    waited = await suspects_wait_seconds(world.database, MODEL)
    assert waited is not None
    assert waited < 3600, older


async def test_a_suspect_whose_worker_is_gone_or_drained_stays_in_its_group(world: World) -> None:
    older, _, boot = await two_groups(world)
    group = await take(world, boot)
    back = [GivenBack(group[0].lease, group[0].tenant_id, 0, blamed=False)]
    await reports.give_back(world.database, back, world.policy)
    await replicas.retire(world.database, boot)
    async with world.database.begin() as connection:
        assert await replicas.rescue(connection, sweeps.CHUNK, world.policy) == {MODEL: 3}

    again = await take(world, await world.worker())

    assert {job.lease.job_id for job in again} == {job.lease.job_id for job in group}
    assert {job.suspects for job in again} == {older}


async def test_a_suspect_that_fails_by_itself_is_none_any_more(world: World) -> None:
    """Its engine lived: the attempt counts, as any other."""
    _, _, boot = await two_groups(world)
    [first, *_] = await take(world, boot)

    await reports.give_back(
        world.database, [GivenBack(first.lease, first.tenant_id, 0, blamed=True)], world.policy
    )

    [job] = await world.claim(boot, 8)
    assert (job.lease.job_id, job.attempts, job.suspects) == (first.lease.job_id, 1, None)


async def test_suspects_expire_and_are_cancelled_like_others(world: World) -> None:
    older, _, _ = await two_groups(world)
    await world.execute(
        "UPDATE jobs SET deadline = clock_timestamp() - interval '1 s' WHERE suspects = :group", group=older
    )
    async with world.database.begin() as connection:
        assert await sweeps.expire_queued(connection, world.policy) == 4
    await world.execute("UPDATE batches SET status = 'cancelling'")
    async with world.database.begin() as connection:
        assert await sweeps.cancel_queued(connection, world.policy) == 4
    assert await world.states() == {"expired": 4, "cancelled": 4}


async def test_a_group_of_a_cancelled_batch_or_past_its_deadline_is_not_given_out(world: World) -> None:
    """Nor does it keep a younger group waiting."""
    cancelled, late, boot = await two_groups(world)
    await world.execute(
        "UPDATE jobs SET deadline = clock_timestamp() - interval '1 s' WHERE suspects = :group", group=late
    )
    await world.execute("UPDATE batches SET status = 'cancelling'")
    await world.batch(await world.tenant("other"), 2)
    youngest = uuid4()
    await suspect(world, await world.claim(boot, 2), youngest)

    assert {job.suspects for job in await take(world, boot)} == {youngest}, cancelled
    assert await take(world, boot) == []
    assert await suspects_wait_seconds(world.database, MODEL) is None
