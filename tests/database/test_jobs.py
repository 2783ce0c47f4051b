"""A tenant's view of its jobs: found in every state, with the answer byte for byte, by nobody else."""

from __future__ import annotations

import pytest

from db import reports
from db.connect import Role, connect, tenant_transaction
from db.jobs import get_job, outcome
from db.objects import Objects
from lanes.job import JobState
from lanes.report import Finished
from lanes.usage import Usage
from tests.world import World


@pytest.mark.parametrize("size", [2, 100_000], ids=["inline", "in object storage"])
async def test_a_job_is_found_in_every_state_by_its_tenant_only(
    world: World, objects: Objects, database_url: str, size: int
) -> None:
    owner, stranger = await world.tenant("owner"), await world.tenant("stranger")
    batch = await world.batch(owner, 1, custom_id="mine")
    [row] = await world.live()
    api = connect(database_url, Role.API, connections=2, name="test")
    body = b"x" * size
    seen = []
    try:
        for step in ("queued", "claimed", "ended"):
            if step == "claimed":
                [job] = await world.claim(await world.worker(), 1)
            if step == "ended":
                done = Finished(job.lease, owner, "succeeded", 200, None, body, Usage(9, 1, 5), 1, 2)
                await reports.finish(world.database, objects, [done], world.policy)
            async with tenant_transaction(api, stranger) as connection:
                assert await get_job(connection, stranger, row.id) is None
                assert await get_job(connection, owner, row.id) is None, "row-level security binds the role"
                assert await outcome(connection, objects, owner, row.id) is None
            async with tenant_transaction(api, owner) as connection:
                found = await get_job(connection, owner, row.id)
                assert found is not None
                assert (found.batch_id, found.custom_id) == (batch, "mine")
                seen.append(found.state)
                answer = await outcome(connection, objects, owner, row.id)
                assert answer == (body if step == "ended" else None)
    finally:
        await api.dispose()
    assert seen == [JobState.QUEUED, JobState.RUNNING, JobState.SUCCEEDED]
    assert found is not None
    assert (found.status_code, found.usage, found.deadline) == (200, Usage(9, 1, 5), None)


async def test_a_deleted_job_is_not_shown(world: World) -> None:
    tenant = await world.tenant()
    await world.batch(tenant, 1)
    [row] = await world.live()
    await world.execute(
        "INSERT INTO job_requests (job_id, tenant_id, key_id, kind, metadata, deadline, decision)"
        " VALUES (:job, :tenant, uuidv7(), 'job', '{\"a\": \"b\"}', clock_timestamp(), '{}')",
        job=row.id, tenant=tenant,
    )  # fmt: skip
    async with world.database.connect() as connection:
        found = await get_job(connection, tenant, row.id)
    assert found is not None
    assert (found.metadata, found.deadline) == ({"a": "b"}, row.deadline)

    await world.execute("UPDATE job_requests SET deleted_at = clock_timestamp()")

    async with world.database.connect() as connection:
        assert await get_job(connection, tenant, row.id) is None
