"""A job that asked to run later runs at last."""

from __future__ import annotations

from dataclasses import replace

from sqlalchemy import text

from db import sweeps
from tests.world import World


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
