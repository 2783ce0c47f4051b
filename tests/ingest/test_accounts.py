"""Accounts are active before anybody can see the jobs, and bring no credit."""

from __future__ import annotations

import asyncio
from uuid import UUID, uuid4

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from db.accounts import activate
from db.tables.accounts import TENANT_LEVEL
from lanes.lane import Lane

from .conftest import Desk


async def enqueue(desk: Desk, flow_id: UUID, lane: Lane = Lane.BULK) -> None:
    async with desk.parts.database.begin() as connection:
        await activate(connection, "toy", lane, desk.tenant_id, flow_id)


async def vtimes(desk: Desk) -> dict[UUID, tuple[float, float, bool]]:
    rows = await desk.rows("SELECT flow_id, vtime, weight, active FROM lane_accounts WHERE lane = 2")
    return {row.flow_id: (row.vtime, row.weight, row.active) for row in rows}


async def test_first_use_makes_the_turnstile_and_both_accounts(desk: Desk) -> None:
    flow = uuid4()
    await enqueue(desk, flow)
    assert await vtimes(desk) == {TENANT_LEVEL: (0, 4, True), flow: (0, 1, True)}
    [turnstile] = await desk.rows("SELECT * FROM turnstiles")
    assert (turnstile.model, turnstile.lane, turnstile.floor) == ("toy", 2, 0)


async def test_a_tenant_starts_at_the_floor_and_keeps_what_it_owes(desk: Desk) -> None:
    flow = uuid4()
    await desk.execute("INSERT INTO turnstiles VALUES ('toy', 2, 70), ('toy', 1, 900)")
    await enqueue(desk, flow)
    assert (await vtimes(desk))[TENANT_LEVEL] == (70, 4, True)
    await desk.execute(
        "UPDATE lane_accounts SET active = false, vtime = 50 WHERE flow_id = :id", id=TENANT_LEVEL
    )
    await enqueue(desk, flow)
    assert (await vtimes(desk))[TENANT_LEVEL] == (70, 4, True)
    await desk.execute(
        "UPDATE lane_accounts SET active = false, vtime = 99 WHERE flow_id = :id", id=TENANT_LEVEL
    )
    await enqueue(desk, flow)
    assert (await vtimes(desk))[TENANT_LEVEL] == (99, 4, True)


async def test_a_flow_starts_at_the_least_of_its_tenants_active_flows(desk: Desk) -> None:
    """Not at the floor of the lane: with another weight than 1 that would be credit, or a debt."""
    slow, fast, new = uuid4(), uuid4(), uuid4()
    await enqueue(desk, slow)
    await enqueue(desk, fast)
    await desk.execute("UPDATE turnstiles SET floor = 7")
    await desk.execute("UPDATE lane_accounts SET vtime = 300 WHERE flow_id = :id", id=slow)
    await desk.execute("UPDATE lane_accounts SET vtime = 200 WHERE flow_id = :id", id=fast)
    await enqueue(desk, new)
    assert (await vtimes(desk))[new] == (200, 1, True)


async def test_an_active_flow_is_left_as_it_is_and_a_tenant_without_a_queue_is_lifted(desk: Desk) -> None:
    flow = uuid4()
    await enqueue(desk, flow)
    await desk.execute("UPDATE lane_accounts SET vtime = 5")
    await desk.execute("UPDATE turnstiles SET floor = 70")
    before = await desk.rows("SELECT xmin, * FROM lane_accounts ORDER BY flow_id")
    await enqueue(desk, flow)
    after = await desk.rows("SELECT xmin, * FROM lane_accounts ORDER BY flow_id")
    assert before[1] == after[1], "the flow's row was not written again"
    assert after[0].vtime == after[0].start == 70, (
        "no other flow of the tenant has a job: it brings no credit"
    )


async def wait_for_blocked(desk: Desk, at_least: int) -> None:
    async with asyncio.timeout(10):
        while True:
            [row] = await desk.rows("SELECT count(*) AS waiting FROM pg_locks WHERE NOT granted")
            if row.waiting >= at_least:
                return


@pytest.mark.parametrize("level", ["tenant", "flow"])
async def test_an_account_set_inactive_meanwhile_is_made_active_again(desk: Desk, level: str) -> None:
    """The sweeper was first: the enqueue waits for it and then does not believe the old row."""
    flow = uuid4()
    account = TENANT_LEVEL if level == "tenant" else flow
    await enqueue(desk, flow)
    async with desk.parts.database.begin() as sweeper:
        await _set_inactive(sweeper, account)
        enqueued = asyncio.create_task(enqueue(desk, flow))
        await wait_for_blocked(desk, 1)
    await enqueued
    assert (await vtimes(desk))[account][2]


@pytest.mark.parametrize("level", ["tenant", "flow"])
async def test_an_account_removed_meanwhile_is_made_again(desk: Desk, level: str) -> None:
    flow = uuid4()
    account = TENANT_LEVEL if level == "tenant" else flow
    await enqueue(desk, flow)
    async with desk.parts.database.begin() as sweeper:
        await sweeper.execute(text("DELETE FROM lane_accounts WHERE flow_id = :id"), {"id": account})
        enqueued = asyncio.create_task(enqueue(desk, flow))
        await wait_for_blocked(desk, 1)
    await enqueued
    assert (await vtimes(desk))[account][2]


async def test_a_sweeper_waits_for_the_enqueue(desk: Desk) -> None:
    """The enqueue was first: the sweeper's fresh look comes after its commit."""
    flow = uuid4()
    await enqueue(desk, flow)

    async def sweep() -> None:
        async with desk.parts.database.begin() as connection:
            await connection.execute(
                text("SELECT FROM lane_accounts WHERE flow_id = :id FOR UPDATE"), {"id": flow}
            )
            assert committed

    committed = False
    async with desk.parts.database.begin() as connection:
        await activate(connection, "toy", Lane.BULK, desk.tenant_id, flow)
        sweeping = asyncio.create_task(sweep())
        await wait_for_blocked(desk, 1)
        committed = True
    await sweeping


async def test_many_at_once_of_one_tenant(desk: Desk) -> None:
    flows = [uuid4() for _ in range(10)]
    await asyncio.gather(*(enqueue(desk, flow) for flow in flows))
    assert all(active for _, _, active in (await vtimes(desk)).values())
    assert set(await vtimes(desk)) == {TENANT_LEVEL, *flows}


async def _set_inactive(connection: AsyncConnection, account: UUID) -> None:
    """As every sweeper must: FOR UPDATE first, since a plain UPDATE does not stop KEY SHARE."""
    for command in (
        "SELECT FROM lane_accounts WHERE flow_id = :id FOR UPDATE",
        "UPDATE lane_accounts SET active = false WHERE flow_id = :id",
    ):
        await connection.execute(text(command), {"id": account})
