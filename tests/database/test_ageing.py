"""A job that asked to run later runs at last."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from uuid import UUID, uuid4

import pytest
from sqlalchemy import func, insert, text

from db import sweeps
from db.accounts import activate
from db.tables import jobs
from lanes.lane import Lane
from tests.world import MODEL, World


async def age(world: World) -> int:
    async with world.database.begin() as connection:
        return await sweeps.age_ranks(connection, world.policy)


async def ranked(world: World, rank: int, waited_seconds: float) -> None:
    """One more queued job, of a flow of its own."""
    batch_id = await world.batch(await world.tenant(f"{rank} {waited_seconds}"), 1, rank=rank)
    await world.execute(
        "UPDATE jobs SET created_at = clock_timestamp() - make_interval(secs => :waited)"
        " WHERE flow_id = :flow",
        waited=waited_seconds,
        flow=batch_id,
    )


async def ranks(world: World) -> list[int]:
    return [row.rank for row in await world.rows("SELECT rank FROM jobs ORDER BY id")]


async def test_after_long_waiting_a_high_rank_is_the_common_one(world: World) -> None:
    world.policy = replace(world.policy, age_seconds=60)
    for rank, waited in ((8, 61), (1, 61), (8, 30), (0, 61), (-8, 61)):
        await ranked(world, rank, waited)

    assert await age(world) == 2
    assert await ranks(world) == [0, 0, 8, 0, -8]
    assert await age(world) == 0


async def test_a_job_that_is_being_claimed_is_passed_over(world: World) -> None:
    world.policy = replace(world.policy, age_seconds=60)
    await ranked(world, 8, 61)
    async with world.database.begin() as claimer:
        await claimer.execute(text("SELECT FROM jobs FOR NO KEY UPDATE"))
        assert await age(world) == 0
    assert await age(world) == 1


async def test_in_one_flow_the_aged_job_is_claimed_before_a_newer_one(world: World) -> None:
    world.policy = replace(world.policy, age_seconds=60)
    await world.batch(await world.tenant(), 3)
    await world.execute(
        "UPDATE jobs SET rank = 8, ord = 0, created_at = clock_timestamp() - interval '61 s' WHERE line = 2"
    )
    await world.execute("UPDATE jobs SET rank = 1 WHERE line <> 2")
    await age(world)
    [job] = await world.claim(await world.worker(), 1)
    [row] = await world.rows("SELECT line FROM jobs WHERE id = :id", id=job.lease.job_id)
    assert row.line == 2


async def single(world: World, tenant: UUID, key: UUID, ord_: int, rank: int) -> None:
    """One more job of an API key, as `ord_` says when it came; it is due in an hour, as they all are."""
    async with world.database.begin() as connection:
        await activate(connection, MODEL, Lane.BULK, tenant, key)
        await connection.execute(
            insert(jobs).values(
                tenant_id=tenant, flow_id=key, ord=ord_, rank=rank, bucket=1, lane=2, model=MODEL,
                deadline=func.clock_timestamp() + timedelta(hours=1), endpoint="/v1/chat/completions",
                input_tokens=100, output_tokens=50,
            )
        )  # fmt: skip


@pytest.mark.parametrize("rank", [0, 8, -1])
async def test_jobs_that_keep_coming_with_a_lower_rank_hold_nobody_back_for_ever(
    world: World, rank: int
) -> None:
    """Ten units of time long one comes and one is claimed; a job is aged after five."""
    world.policy = replace(world.policy, age_seconds=500)
    tenant, key, boot = await world.tenant(), uuid4(), await world.worker()
    await single(world, tenant, key, 0, rank)
    for unit in range(1, 11):
        await single(world, tenant, key, unit, -8)
        await world.execute("UPDATE jobs SET created_at = created_at - interval '100 s'")
        await age(world)
        await world.claim(boot, 1)

    [first] = await world.rows("SELECT state FROM jobs WHERE ord = 0")
    assert first.state == "running"
