"""The load that admission sees: the tenant's own rows, and of everybody's only numbers."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from uuid import UUID, uuid4

import pytest
from sqlalchemy import text

from db import reports
from db.connect import Role, connect, tenant_transaction
from db.load import load
from db.objects import Objects
from lanes.lane import Lane
from lanes.outlook import Load
from lanes.policy import DEFAULT, Policy
from lanes.report import Finished
from lanes.usage import Usage
from tests.world import MODEL, World

EACH = 100 + 2 * 50  # the cost of a job of the world


async def seen(
    database_url: str, tenant_id: UUID, flow_id: UUID | None = None, policy: Policy = DEFAULT,
    deadline_seconds: float = 7_200.0,
) -> Load:  # fmt: skip
    """As the api asks, under row-level security."""
    engine = connect(database_url, Role.API, connections=1, name="test")
    try:
        async with tenant_transaction(engine, tenant_id) as connection:
            return await load(
                connection, model=MODEL, lane=Lane.BULK, tenant_id=tenant_id, flow_id=flow_id or uuid4(),
                deadline_seconds=deadline_seconds, policy=policy,
            )  # fmt: skip
    finally:
        await engine.dispose()


async def test_an_empty_lane_has_no_load_and_no_rate(world: World, database_url: str) -> None:
    tenant = await world.tenant(weight=2.0)
    assert await seen(database_url, tenant) == Load(weight=2.0, active_weights=2.0, replicas_ready=0)


async def test_the_costs_of_the_own_flow_of_the_others_and_of_everybody(
    world: World, database_url: str
) -> None:
    one, other = await world.tenant("one", 2.0), await world.tenant("other", 3.0)
    flow = await world.batch(one, 2)
    await world.batch(one, 4)
    await world.batch(other, 8)
    await world.worker()

    mine = await seen(database_url, one, flow)
    assert (mine.ahead_cost, mine.flows_cost, mine.flows) == (2 * EACH, 4 * EACH, 1)
    assert (mine.lane_cost, mine.weight, mine.active_weights) == (14 * EACH, 2.0, 5.0)
    assert (mine.queued_jobs, mine.replicas_ready) == (0, 1), "lines of batches have bounds of their own"
    assert mine.oldest_seconds > 0

    newcomer = await world.tenant("newcomer", 4.0)
    theirs = await seen(database_url, newcomer)
    assert (theirs.ahead_cost, theirs.flows_cost) == (0, 0)
    assert (theirs.lane_cost, theirs.active_weights) == (14 * EACH, 9.0), "it would be one more"


async def test_what_is_due_in_a_later_bucket_is_not_ahead(world: World, database_url: str) -> None:
    tenant = await world.tenant()
    far = 1 << 30
    flow = await world.batch(tenant, 3, timedelta(days=20), bucket=far)
    assert (await seen(database_url, tenant, flow)).ahead_cost == 0
    until = float(DEFAULT.bucket_seconds) * (far + 1)
    assert (await seen(database_url, tenant, flow, deadline_seconds=until)).ahead_cost == 3 * EACH


async def test_no_queue_is_read_beyond_the_bound(world: World, database_url: str) -> None:
    tenant = await world.tenant()
    flow = await world.batch(tenant, 9)
    found = await seen(database_url, tenant, flow, replace(DEFAULT, queued_jobs_limit=4))
    assert found.ahead_cost == found.lane_cost == 4 * EACH


async def test_rates_are_those_of_the_lane_and_of_a_seat(
    world: World, objects: Objects, database_url: str
) -> None:
    tenant = await world.tenant()
    await world.batch(tenant, 2)
    await world.execute(
        "INSERT INTO service_rates (model, lane, cost, jobs, seconds, measured_at)"
        " VALUES (:model, 2, 900, 3, 30, clock_timestamp())",
        model=MODEL,
    )
    # Two jobs of 60 + 2 * 70 cost units take a second each.
    finished = [
        Finished(job.lease, tenant, "succeeded", 200, None, b"{}", Usage(90, 30, 70), 0, 1_000)
        for job in await world.claim(await world.worker(), 2)
    ]
    await reports.finish(world.database, objects, finished, world.policy)

    found = await seen(database_url, tenant)
    assert found.cost_per_second == 30.0
    assert found.seat_cost_per_second == pytest.approx(200.0)


async def test_the_api_still_sees_no_row_of_another_tenant(world: World, database_url: str) -> None:
    one, other = await world.tenant("one"), await world.tenant("other")
    await world.batch(other, 3)
    engine = connect(database_url, Role.API, connections=1, name="test")
    try:
        async with tenant_transaction(engine, one) as connection:
            for table in ("jobs", "lane_accounts", "jobs_done"):
                counted = await connection.execute(text(f"SELECT count(*) FROM {table}"))
                assert counted.scalar_one() == 0
    finally:
        await engine.dispose()
