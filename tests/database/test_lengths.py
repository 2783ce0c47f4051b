"""Learned lengths: what finished jobs used is remembered by size, and predicts the next ones."""

from __future__ import annotations

from sqlalchemy import text

from db import lengths, reports
from db.lengths import BUCKET_BOUNDS
from db.objects import Objects
from lanes.lengths import LAST_BUCKET, bucket
from lanes.report import Finished
from lanes.usage import Usage
from tests.world import MODEL, World


async def run(world: World, objects: Objects, outputs: list[int]) -> None:
    """Jobs of 100 expected input tokens that end well with so many output tokens."""
    jobs = await world.claim(await world.worker(), len(outputs))
    finished = [
        Finished(job.lease, job.tenant_id, "succeeded", 200, None, b"{}", Usage(90, 30, output), 1, 2)
        for job, output in zip(jobs, outputs, strict=True)
    ]
    await reports.finish(world.database, objects, finished, world.policy)


async def fold(world: World) -> int:
    async with world.database.begin() as connection:
        return await lengths.fold_lengths(connection, world.policy)


async def test_the_database_and_the_rules_mean_the_same_buckets(world: World) -> None:
    counts = [1, 2, 3, 4, 5, 8, 9, 1000, 1024, 1025, 2**19, 2**19 + 1, 2**20, 2**20 + 1, 2**30]
    async with world.database.begin() as connection:
        found = await connection.execute(
            text(
                "SELECT width_bucket(n, CAST(:bounds AS integer[]))"
                " FROM unnest(CAST(:counts AS integer[])) AS n"
            ),
            {"bounds": BUCKET_BOUNDS, "counts": counts},
        )
        assert list(found.scalars()) == [bucket(count) for count in counts]
    assert bucket(2**30) == LAST_BUCKET


async def test_a_flush_writes_a_row_for_each_length_and_none_for_failures(
    world: World, objects: Objects
) -> None:
    await world.batch(await world.tenant(), 5)
    await run(world, objects, [10, 12, 400, 0])

    rows = await world.rows("SELECT * FROM length_deltas ORDER BY output_bucket")
    assert [(row.input_bucket, row.output_bucket, row.jobs) for row in rows] == [
        (bucket(100), bucket(10), 2), (bucket(100), bucket(400), 1),
    ]  # fmt: skip
    assert [row.cost for row in rows] == [2 * 60 + 2 * 22, 60 + 2 * 400]


async def test_what_was_seen_predicts_what_comes_and_only_for_its_tenant(
    world: World, objects: Objects
) -> None:
    tenant = await world.tenant()
    await world.batch(tenant, 120)
    for _ in range(2):
        await run(world, objects, [10] * 60)
        assert await fold(world) > 0
    assert await fold(world) == 0

    async with world.database.begin() as connection:
        own = await lengths.predictor(connection, tenant, world.policy)
        other = await lengths.predictor(connection, await world.tenant("other"), world.policy)

    guess = world.policy.output_guess_tokens
    assert 8 < own.output_tokens(MODEL, 100, None) <= 16
    assert own.output_tokens(MODEL, 100, 5) == 5
    assert own.output_tokens(MODEL, 5_000, None) == guess, "another size of input"
    assert own.output_tokens("another model", 100, None) == guess
    assert other.output_tokens(MODEL, 100, None) == guess


async def test_the_service_rate_is_what_was_served_over_the_time_it_took(
    world: World, objects: Objects
) -> None:
    await world.batch(await world.tenant(), 60)
    await run(world, objects, [10])
    await fold(world)
    [first] = await world.rows("SELECT * FROM service_rates")
    assert (first.cost, first.seconds) == (0, 0), "one moment is no rate"

    await world.execute("UPDATE service_rates SET measured_at = measured_at - interval '10 s'")
    await run(world, objects, [10] * 20)
    await fold(world)
    [rate] = await world.rows("SELECT cost / seconds AS rate FROM service_rates")
    assert 20 * (60 + 2 * 10) / 11 < rate.rate <= 20 * (60 + 2 * 10) / 10

    await world.execute("UPDATE service_rates SET measured_at = measured_at - interval '1 h'")
    await run(world, objects, [10])
    await fold(world)
    [after] = await world.rows("SELECT cost / seconds AS rate FROM service_rates")
    assert after.rate == rate.rate, "an idle hour is not slowness"
