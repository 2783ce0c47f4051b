"""Finalising: both files add up to the total, whatever happened, and the batch is closed once."""

from __future__ import annotations

import json
from typing import Any

import pytest
from celery import Celery

from db import finalise, reports, sweeps
from db.objects import Objects
from db.redis.doorbell import Doorbell
from lanes import failure
from lanes.batch import BatchStatus
from lanes.report import Finished
from lanes.usage import Usage
from tests.world import World
from workers.maintenance.finalise import Finalise
from workers.maintenance.services import Parts


@pytest.fixture
def service(world: World, objects: Objects) -> Finalise:
    return Finalise(Parts(world.database, objects, Doorbell(Celery()), world.policy))


async def finish_some(world: World, objects: Objects, succeed: int, fail: int) -> None:
    jobs = await world.claim(await world.worker(), succeed + fail)
    usage = Usage(input_tokens=10, output_tokens=4)
    await reports.finish(
        world.database,
        objects,
        [
            Finished(job.lease, job.tenant_id, "succeeded", 200, None, b'{"n": %d}' % n, usage, 1, 2)
            if n < succeed
            else Finished(job.lease, job.tenant_id, "failed", None, failure.ENGINE_ERROR, None, Usage(), 1, 2)
            for n, job in enumerate(jobs)
        ],
        world.policy,
    )


async def contents(world: World, objects: Objects) -> dict[str, list[Any]]:
    found = {}
    for row in await world.rows("SELECT filename, object_key, bytes FROM files WHERE purpose <> 'batch'"):
        data = b"".join([chunk async for chunk in objects.stream(row.object_key)])
        assert len(data) == row.bytes
        kind = row.filename.rsplit("_", 1)[1]
        found[kind] = [json.loads(line) for line in data.splitlines()]
    return found


async def expire(world: World, first: str = "SELECT 1", lines: int = 100) -> None:
    """After the statement `first`, end what is queued up to that line as past its deadline."""
    await world.execute(first)
    await world.execute(
        "UPDATE jobs SET deadline = clock_timestamp() - interval '1 s' WHERE line <= :lines", lines=lines
    )
    async with world.database.begin() as connection:
        await sweeps.expire_queued(connection, world.policy)


async def test_a_batch_with_live_jobs_is_left_alone(world: World, service: Finalise) -> None:
    await world.batch(await world.tenant(), 1)

    assert await service.run_once() is False


async def test_every_line_is_in_exactly_one_file_in_order(
    world: World, objects: Objects, service: Finalise
) -> None:
    batch_id = await world.batch(await world.tenant(), 6)
    await finish_some(world, objects, succeed=3, fail=1)
    await expire(world, "UPDATE batches SET expires_at = clock_timestamp() - interval '1 s'")

    assert await service.run_once() is True

    files = await contents(world, objects)
    assert [record["response"]["body"] for record in files["output.jsonl"]] == [
        {"n": 0}, {"n": 1}, {"n": 2},
    ]  # fmt: skip
    codes = [record["error"]["code"] for record in files["errors.jsonl"]]
    assert codes == ["engine_error", "batch_expired", "batch_expired"]
    assert all(record["response"] is None for record in files["errors.jsonl"])
    [batch] = await world.rows("SELECT * FROM batches")
    assert (batch.id, batch.status) == (batch_id, "expired")
    assert (batch.succeeded, batch.unsuccessful, batch.output_tokens) == (3, 3, 12)
    assert await world.rows("SELECT FROM batch_progress") == []
    assert await world.rows("SELECT FROM segments") == [], "the input is no longer needed"


async def test_lines_past_their_own_deadlines_are_errors_of_a_completed_batch(
    world: World, objects: Objects, service: Finalise
) -> None:
    await world.batch(await world.tenant(), 5)
    await expire(world, lines=2)
    await finish_some(world, objects, succeed=3, fail=0)
    # The window ends before the finaliser comes: what ended in it counts, and not when this is seen.
    await world.execute("UPDATE batches SET expires_at = clock_timestamp()")

    assert await service.run_once() is True

    files = await contents(world, objects)
    assert [record["response"]["body"]["n"] for record in files["output.jsonl"]] == [0, 1, 2]
    assert [record["error"]["code"] for record in files["errors.jsonl"]] == ["batch_expired"] * 2
    [batch] = await world.rows("SELECT * FROM batches")
    assert (batch.status, batch.succeeded, batch.unsuccessful) == ("completed", 3, 2)


async def test_nothing_to_offer_means_no_file(world: World, objects: Objects, service: Finalise) -> None:
    await world.batch(await world.tenant(), 2)
    await finish_some(world, objects, succeed=2, fail=0)

    await service.run_once()

    [batch] = await world.rows("SELECT * FROM batches")
    assert (batch.status, batch.error_file_id) == ("completed", None)
    assert set(await contents(world, objects)) == {"output.jsonl"}


async def test_a_cancelled_batch_keeps_what_was_done(
    world: World, objects: Objects, service: Finalise
) -> None:
    await world.batch(await world.tenant(), 3)
    await finish_some(world, objects, succeed=1, fail=0)
    await world.execute("UPDATE batches SET status = 'cancelling', cancelling_at = clock_timestamp()")
    async with world.database.begin() as connection:
        await sweeps.cancel_queued(connection, world.policy)

    await service.run_once()

    files = await contents(world, objects)
    assert len(files["output.jsonl"]) == 1
    assert [record["error"]["code"] for record in files["errors.jsonl"]] == ["batch_cancelled"] * 2
    [batch] = await world.rows("SELECT * FROM batches")
    assert batch.status == "cancelled"
    assert batch.cancelled_at is not None


async def test_a_batch_cancelled_while_validated_ends_with_nothing(world: World, service: Finalise) -> None:
    await world.batch(await world.tenant(), 0)
    await world.execute("UPDATE batches SET status = 'cancelling', total = NULL")

    await service.run_once()

    [batch] = await world.rows("SELECT * FROM batches")
    assert (batch.status, batch.total, batch.output_file_id) == ("cancelled", 0, None)


async def test_who_lost_the_batch_closes_nothing(world: World, objects: Objects) -> None:
    await world.batch(await world.tenant(), 1)
    await finish_some(world, objects, succeed=1, fail=0)
    slow = await finalise.take_ending_batch(world.database)
    assert slow is not None
    assert await finalise.take_ending_batch(world.database) is None, "it is held"
    await world.execute("UPDATE batches SET lease_until = clock_timestamp() - interval '1 s'")
    quick = await finalise.take_ending_batch(world.database)
    assert quick is not None

    assert not await finalise.renew(world.database, slow)
    args = {"output": None, "errors": None, "status": BatchStatus.COMPLETED, "sums": {"succeeded": 1}}
    assert await finalise.close_batch(world.database, slow, **args) is None  # type: ignore[arg-type]  # as above
    assert await finalise.close_batch(world.database, quick, **args) is not None  # type: ignore[arg-type]  # as above


async def test_records_that_do_not_add_up_keep_the_batch_open(
    world: World, objects: Objects, service: Finalise
) -> None:
    await world.batch(await world.tenant(), 2)
    await finish_some(world, objects, succeed=2, fail=0)
    await world.execute("DELETE FROM jobs_done WHERE line = 2")

    await service.run_once()

    [batch] = await world.rows("SELECT status, output_file_id FROM batches")
    assert (batch.status, batch.output_file_id) == ("finalizing", None)


async def test_the_ended_flow_leaves_no_account_and_its_tenant_rests(
    world: World, objects: Objects, service: Finalise
) -> None:
    await world.batch(await world.tenant(), 1)
    await finish_some(world, objects, succeed=1, fail=0)
    await world.claim(await world.worker(), 1)  # folds the charge

    await service.run_once()

    [account] = await world.rows("SELECT active, vtime FROM lane_accounts")
    assert not account.active
    [turnstile] = await world.rows("SELECT floor FROM turnstiles")
    assert turnstile.floor == account.vtime > 0
