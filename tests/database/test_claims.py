"""Claiming: who gets which jobs, and that no job is ever held twice."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace
from datetime import timedelta

import pytest

from db import replicas
from db.replicas import ReplicaState
from tests.world import World


async def test_a_claim_leases_in_file_order_and_charges(world: World) -> None:
    tenant = await world.tenant()
    await world.batch(tenant, 5)
    boot = await world.worker()

    claimed = await world.claim(boot, 3)

    assert [job.lease.fence for job in claimed] == [1, 1, 1]
    rows = await world.live()
    assert [(row.line, row.state) for row in rows] == [
        (1, "running"), (2, "running"), (3, "running"), (4, "queued"), (5, "queued"),
    ]  # fmt: skip
    assert {job.lease.job_id for job in claimed} == {row.id for row in rows[:3]}
    charges = await world.rows("SELECT kind, cost FROM account_deltas")
    assert [(row.kind, row.cost) for row in charges] == [("charge", 200.0)] * 3


async def test_racing_workers_never_share_a_job(world: World) -> None:
    tenant = await world.tenant()
    await world.batch(tenant, 60)
    boots = [await world.worker() for _ in range(6)]

    slices = await asyncio.gather(*(world.claim(boot, 20) for boot in boots))

    ids = [job.lease.job_id for claimed in slices for job in claimed]
    assert len(ids) == len(set(ids)) == 60


async def test_tenants_share_by_weight(world: World) -> None:
    world.policy = replace(world.policy, quantum_cost=0)
    light, heavy = await world.tenant("light", 1), await world.tenant("heavy", 3)
    await world.batch(light, 40)
    await world.batch(heavy, 40)
    boot = await world.worker()

    shares = Counter([job.tenant_id for _ in range(5) for job in await world.claim(boot, 8)])

    # 40 jobs at weights 1:3
    assert abs(shares[light] - 10) <= 1
    assert shares[light] + shares[heavy] == 40


async def test_flows_of_one_tenant_share_evenly(world: World) -> None:
    tenant = await world.tenant()
    world.policy = replace(world.policy, quantum_cost=0)
    flows = [await world.batch(tenant, 30) for _ in range(3)]
    boot = await world.worker()

    shares = Counter([job.flow_id for _ in range(3) for job in await world.claim(boot, 10)])

    assert set(shares) == set(flows)
    assert max(shares.values()) - min(shares.values()) <= 1


async def test_a_tenant_that_comes_back_brings_no_credit(world: World) -> None:
    world.policy = replace(world.policy, quantum_cost=0)
    early, late = await world.tenant("early"), await world.tenant("late")
    await world.batch(early, 50)
    boot = await world.worker()
    for _ in range(3):
        await world.claim(boot, 10)
    await world.claim(boot, 1)  # folds what the last slice cost
    await world.execute("UPDATE lane_accounts SET reserved = 0")  # all of it has ended meanwhile
    await world.batch(late, 50)

    shares = Counter([job.tenant_id for job in await world.claim(boot, 10)])

    assert shares[early] >= 4, "the newcomer was served for the time before it came"


@pytest.mark.parametrize("state", [ReplicaState.WARMING, ReplicaState.DRAINING])
async def test_only_a_ready_worker_claims(world: World, state: ReplicaState) -> None:
    tenant = await world.tenant()
    await world.batch(tenant, 1)
    boot = await world.worker(state)

    assert await world.claim(boot, 1) == []


async def test_a_lost_worker_claims_nothing(world: World) -> None:
    tenant = await world.tenant()
    await world.batch(tenant, 1)
    boot = await world.worker()
    await world.run_out(boot)
    async with world.database.begin() as connection:
        assert list(await replicas.mark_lost(connection)) == [boot]

    assert await world.claim(boot, 1) == []
    assert await world.states() == {"queued": 1}


async def test_what_must_not_run_is_passed_over(world: World) -> None:
    tenant = await world.tenant()
    cancelled = await world.batch(tenant, 2)
    await world.batch(tenant, 2, window=timedelta(seconds=-1))
    delayed = await world.batch(tenant, 2)
    good = await world.batch(tenant, 2)
    await world.execute("UPDATE batches SET status = 'cancelling' WHERE id = :id", id=cancelled)
    await world.execute(
        "UPDATE jobs SET not_before = clock_timestamp() + interval '1 h' WHERE batch_id = :id", id=delayed
    )
    boot = await world.worker()

    claimed = await world.claim(boot, 8) + await world.claim(boot, 8)

    assert {job.flow_id for job in claimed} == {good}
    assert len(claimed) == 2


async def test_a_late_job_at_the_head_of_a_flow_keeps_nobody_waiting_for_the_sweep(world: World) -> None:
    await world.batch(await world.tenant(), 4)
    await world.execute("UPDATE jobs SET deadline = clock_timestamp() - interval '1 s' WHERE line < 3")

    claimed = await world.claim(await world.worker(), 4)

    assert [row.line for row in await world.live() if row.state == "running"] == [3, 4]
    assert len(claimed) == 2


async def test_a_flow_of_late_jobs_takes_no_seat_from_the_others(world: World) -> None:
    tenant = await world.tenant()
    late = await world.batch(tenant, 8)
    await world.execute("UPDATE jobs SET deadline = clock_timestamp() - interval '1 s'")
    other = await world.batch(tenant, 8)

    claimed = await world.claim(await world.worker(), 8)

    assert {job.flow_id for job in claimed} == {other}, late
    assert len(claimed) == 8
