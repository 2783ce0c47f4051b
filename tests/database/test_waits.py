"""How long small ones wait beside huge ones, in PostgreSQL. A wait is counted in slices: claims of one worker
that runs each to its end. Nothing here depends on how fast that is."""

from __future__ import annotations

from uuid import UUID

from db import reports
from db.objects import Objects
from lanes.job import ClaimedJob
from lanes.report import Finished
from lanes.usage import Usage
from tests.world import World

SEATS = 64
HUGE = 100_000

# The jobs of a huge batch are copies of its first line: one statement, as row by row would take minutes.
COPIES = (
    "INSERT INTO jobs (tenant_id, flow_id, batch_id, segment_id, ord, deadline, bucket, line, byte_offset,"
    " byte_length, input_tokens, output_tokens, lane, model, endpoint)"
    " SELECT tenant_id, flow_id, batch_id, segment_id, n, deadline, bucket, n, byte_offset, byte_length,"
    " input_tokens, output_tokens, lane, model, endpoint"
    " FROM jobs, generate_series(2, :jobs) AS n WHERE flow_id = :flow AND line = 1"
)


async def batch(world: World, tenant: UUID, jobs: int) -> UUID:
    flow = await world.batch(tenant, 1)
    await world.execute(COPIES, jobs=jobs, flow=flow)
    await world.execute("UPDATE batches SET total = :jobs WHERE id = :flow", jobs=jobs, flow=flow)
    return flow


async def slices(world: World, objects: Objects, boot: UUID, until: dict[UUID, int]) -> dict[UUID, list[int]]:
    """Claim and run until these flows got so many seats; in which slice each of their jobs ran."""
    ran: dict[UUID, list[int]] = {flow: [] for flow in until}
    number = 0
    while any(len(ran[flow]) < jobs for flow, jobs in until.items()):
        number += 1
        claimed = await world.claim(boot, SEATS)
        assert claimed, f"nothing is claimed, and of {sum(until.values())} only {ran} ran"
        for job in claimed:
            if job.flow_id in ran:
                ran[job.flow_id].append(number)
        await reports.finish(world.database, objects, [_done(job) for job in claimed], world.policy)
    return ran


def _done(job: ClaimedJob) -> Finished:
    usage = Usage(job.input_tokens, 0, job.output_tokens)
    return Finished(job.lease, job.tenant_id, "succeeded", 200, None, b"{}", usage, 1, 2)


async def test_small_tenants_that_come_late_wait_two_slices_beside_a_huge_one(
    world: World, objects: Objects
) -> None:
    """They come one after another, each while the huge one is being served."""
    hog = await batch(world, await world.tenant("hog"), HUGE)
    boot = await world.worker()
    await slices(world, objects, boot, {hog: 2 * SEATS})
    waits: list[int] = []
    for number in range(50):
        late = await batch(world, await world.tenant(f"small {number}"), 10)
        ran = await slices(world, objects, boot, {late: 10})
        waits += ran[late]

    waits.sort()
    assert waits[int(0.95 * len(waits))] <= 2, waits


async def test_small_tenants_that_come_at_once_wait_two_slices_longer_than_all_of_them_must(
    world: World, objects: Objects
) -> None:
    hog = await batch(world, await world.tenant("hog"), HUGE)
    boot = await world.worker()
    await slices(world, objects, boot, {hog: 2 * SEATS})
    small = [await batch(world, await world.tenant(f"small {number}"), 10) for number in range(50)]

    ran = await slices(world, objects, boot, dict.fromkeys(small, 10))

    waits = sorted(number for each in ran.values() for number in each)
    alone = -(-50 * 10 // SEATS)  # slices that they need when nobody else is there
    assert waits[int(0.95 * len(waits))] <= alone + 2, waits


async def test_a_small_batch_ends_three_slices_later_than_alone_beside_a_huge_one(
    world: World, objects: Objects
) -> None:
    """Both are of one tenant, which shares evenly between them."""
    tenant, boot = await world.tenant(), await world.worker()
    hog = await batch(world, tenant, HUGE)
    await slices(world, objects, boot, {hog: 2 * SEATS})
    small = await batch(world, tenant, 100)

    ran = await slices(world, objects, boot, {small: 100})

    alone = -(-100 // SEATS)
    assert max(ran[small]) <= alone + 3, ran[small]
