"""Accounts: what the fold makes of charges and refunds, and that nobody falls out of the scans."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from uuid import UUID

import psycopg
import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from db import replicas, reports, sweeps
from db.accounts import activate
from db.objects import Objects
from db.sql import statement
from lanes.lane import Lane
from lanes.report import Finished, GivenBack
from lanes.usage import Usage
from tests.world import MODEL, World

NIL = UUID(int=0)


async def fold(world: World) -> None:
    await world.claim(NIL, 0)


async def vtime(world: World, tenant: UUID) -> float:
    [row] = await world.rows(
        "SELECT vtime FROM lane_accounts WHERE tenant_id = :tenant AND flow_id = :nil", tenant=tenant, nil=NIL
    )
    return float(row.vtime)


async def charge(world: World, tenant: UUID, flow: UUID, cost: float) -> None:
    """For what was served at once: nothing of it stays reserved."""
    await world.execute(
        "INSERT INTO account_deltas (job_id, fence, kind, model, lane, tenant_id, flow_id, cost, reserved)"
        " VALUES (gen_random_uuid(), 1, 'charge', 'toy', 2, :tenant, :flow, :cost, 0)",
        tenant=tenant, flow=flow, cost=cost,
    )  # fmt: skip


async def floor(world: World) -> float:
    [row] = await world.rows("SELECT floor FROM turnstiles")
    return float(row.floor)


@pytest.fixture
def exact(world: World) -> World:
    """The turnstile is written at every fold."""
    world.policy = replace(world.policy, turnstile_seconds=0, quantum_cost=0)
    return world


async def test_cost_over_weight_is_virtual_time_of_tenant_and_flow(exact: World) -> None:
    tenant = await exact.tenant(weight=4)
    flow = await exact.batch(tenant, 1)
    await charge(exact, tenant, flow, 100)
    await charge(exact, tenant, flow, 60)
    await fold(exact)
    rows = await exact.rows("SELECT flow_id, vtime FROM lane_accounts")
    assert {row.flow_id: row.vtime for row in rows} == {NIL: 40, flow: 160}


async def test_a_refund_of_what_was_charged_before_an_absence_is_no_credit(exact: World) -> None:
    away, busy = await exact.tenant("away"), await exact.tenant("busy")
    flow, other = await exact.batch(away, 1), await exact.batch(busy, 1)
    await charge(exact, away, flow, 500)
    await charge(exact, busy, other, 900)
    await fold(exact)
    await exact.execute("UPDATE lane_accounts SET active = false WHERE tenant_id = :away", away=away)
    again = await exact.batch(away, 1)
    assert await vtime(exact, away) == 900, "lifted to the least of the others"

    await charge(exact, away, flow, -500)
    await fold(exact)
    assert await vtime(exact, away) == 900

    await charge(exact, away, again, 300)
    await charge(exact, away, again, -100)
    await fold(exact)
    assert await vtime(exact, away) == 1100, "what it was charged since comes back whole"


async def test_the_floor_never_falls(exact: World) -> None:
    tenant, other = await exact.tenant("one"), await exact.tenant("two")
    flow, far = await exact.batch(tenant, 1), await exact.batch(other, 1)
    await charge(exact, other, far, 1_000)
    await charge(exact, tenant, flow, 500)
    await fold(exact)
    assert await floor(exact) == 500
    await charge(exact, tenant, flow, -400)
    await fold(exact)
    assert (await vtime(exact, tenant), await floor(exact)) == (100, 500)


async def test_who_fell_below_the_others_is_still_found(world: World) -> None:
    """Also where the turnstile was written a moment ago."""
    world.policy = replace(world.policy, turnstile_seconds=3600, quantum_cost=0)
    tenants = [await world.tenant(name) for name in ("one", "two")]
    flows = [await world.batch(tenant, 9) for tenant in tenants]
    boot = await world.worker()
    for cost in (5_000, -4_000):
        for tenant, flow in zip(tenants, flows, strict=True):
            await charge(world, tenant, flow, cost)
        await fold(world)

    claimed = await world.claim(boot, 6)

    assert {job.flow_id for job in claimed} == set(flows)


async def test_a_flow_that_came_while_others_were_served_is_found(exact: World) -> None:
    """Its account was made of the least of the others when that was less than it is now."""
    tenant, late = await exact.tenant("early"), await exact.tenant("late")
    first = await exact.batch(tenant, 9)
    second, third = await exact.batch(tenant, 2), await exact.batch(late, 2)
    await exact.execute("DELETE FROM lane_accounts WHERE flow_id = ANY(:flows)", flows=[second, third])
    await exact.execute("DELETE FROM lane_accounts WHERE tenant_id = :late", late=late)
    async with exact.database.begin() as enqueue:
        await activate(enqueue, MODEL, Lane.BULK, tenant, second)
        await activate(enqueue, MODEL, Lane.BULK, late, third)
        await charge(exact, tenant, first, 7_000)
        await fold(exact)
    boot = await exact.worker()

    claimed = await exact.claim(boot, 8)

    assert {second, third} <= {job.flow_id for job in claimed}


@pytest.mark.parametrize("way", ["given back", "rescued", "woken", "aged"])
async def test_a_job_that_comes_again_is_claimed_in_its_old_place(exact: World, way: str) -> None:
    """Claims begin where the flow's queue began the last time; it begins earlier now."""
    await exact.batch(await exact.tenant(), 6)
    if way == "aged":
        await exact.execute(
            "UPDATE jobs SET rank = 3, created_at = created_at - interval '1 d' WHERE line < 3"
        )
    boot = await exact.worker()
    jobs = await exact.claim(boot, 3)
    await fold(exact)
    [account] = await exact.rows("SELECT head FROM lane_accounts WHERE head IS NOT NULL")
    if way in ("given back", "woken"):
        delay = 60_000 if way == "woken" else 0
        back = [GivenBack(job.lease, job.tenant_id, delay, blamed=False) for job in jobs[:2]]
        await reports.give_back(exact.database, back, exact.policy)
    if way == "rescued":
        await replicas.retire(exact.database, boot)
        boot = await exact.worker()
    await fold(exact)
    await exact.execute("UPDATE jobs SET not_before = clock_timestamp() WHERE not_before IS NOT NULL")
    async with exact.database.begin() as connection:
        await replicas.rescue(connection, sweeps.CHUNK, exact.policy)
        await sweeps.wake_delayed(connection)
        await sweeps.age_ranks(connection, exact.policy)

    await exact.claim(boot, 2)

    rows = await exact.live()
    assert [row.line for row in rows if row.state == "running" and row.boot_id == boot][:2] == [1, 2], account
    await exact.claim(boot, 6)
    await exact.claim(boot, 6)
    assert {row.state for row in await exact.live()} == {"running"}


async def test_an_old_transaction_does_not_make_claims_read_more(world: World, objects: Objects) -> None:
    """What it might still see stays in the tables: claims must not walk over it again and again."""
    tenants = [await world.tenant(str(n)) for n in range(4)]
    for tenant in tenants:
        flow = await world.batch(tenant, 1)
        await world.execute(
            "INSERT INTO jobs (tenant_id, flow_id, batch_id, segment_id, ord, deadline, bucket, line,"
            " byte_offset, byte_length, input_tokens, output_tokens, lane, model, endpoint)"
            " SELECT tenant_id, flow_id, batch_id, segment_id, n, deadline, bucket, n, 0, 10, 100, 50, 2,"
            " model, endpoint"
            " FROM jobs, generate_series(2, 1500) AS n WHERE flow_id = :flow",
            flow=flow,
        )
    boot = await world.worker()
    url = world.database.url.render_as_string(hide_password=False).replace("+psycopg", "")
    with psycopg.connect(url) as old:
        old.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        old.execute("SELECT count(*) FROM jobs")

        async def served(times: int) -> None:
            for _ in range(times):
                jobs = await world.claim(boot, 32)
                done = [
                    Finished(job.lease, job.tenant_id, "succeeded", 200, None, b"{}", Usage(90, 0, 20), 1, 2)
                    for job in jobs
                ]
                await reports.finish(world.database, objects, done, world.policy)

        await served(10)
        before = await pages(world)
        await served(100)
        after = await pages(world)
    assert after < 2 * before, (before, after)  # eleven times as many versions lie there


async def pages(world: World) -> int:
    """Pages that one claim reads to find its deltas and its flows; nothing is changed.

    What it writes is not counted: each version of an account costs its next update a look at a page.
    """
    scope = {"model": MODEL, "lane": 2}
    prices = {"input_cost": 1.0, "output_cost": 2.0}
    async with world.database.connect() as connection:
        lowest = (await connection.execute(text("SELECT lowest FROM turnstiles"))).scalar_one()
        await connection.execute(statement("enter_turnstile"), scope)
        fold = await explained(connection, "fold_deltas", scope | {"turnstile_seconds": 0.1})
        limits = {"lowest": lowest, "accounts": 128, "flows": 16, "late_jobs": 256}
        snapshot = await explained(connection, "snapshot", scope | prices | limits)
        await connection.rollback()
    found = [node for node in walk(fold) if "Plans" in node and node.get("Relation Name") == "account_deltas"]
    others = [node for node in walk(fold) if node.get("Alias") in {"o", "o_1"}]  # who is least of the rest
    assert (len(found), len(others)) == (1, 2)
    return sum(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] for plan in (*found, *others, snapshot))


async def explained(connection: AsyncConnection, name: str, values: dict[str, Any]) -> dict[str, Any]:
    ran = text(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {statement(name).text}")
    plan: dict[str, Any] = (await connection.execute(ran, values)).scalar_one()[0]["Plan"]
    return plan


def walk(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield node
    for child in node.get("Plans", []):
        yield from walk(child)
