"""The reconciler: whatever was done to the accounts, a queued job is found again."""

from __future__ import annotations

import pytest
from celery import Celery

from db import reconcile
from db.objects import Objects
from db.redis.doorbell import Doorbell
from tests.world import MODEL, World
from workers.maintenance.reconcile import Reconcile
from workers.maintenance.services import Parts

DAMAGE = {
    "flow inactive": "UPDATE lane_accounts SET active = false WHERE flow_id = :flow",
    "tenant inactive": "UPDATE lane_accounts SET active = false WHERE flow_id <> :flow",
    "flow missing": "DELETE FROM lane_accounts WHERE flow_id = :flow",
    "tenant missing": "DELETE FROM lane_accounts WHERE flow_id <> :flow",
    "queue begins too late": "UPDATE lane_accounts SET head = '{0,1,3}' WHERE flow_id = :flow",
    "flow below the scan": "UPDATE lane_accounts SET lowest = 1e9 WHERE flow_id <> :flow",
    "tenant below the scan": (
        "UPDATE turnstiles SET lowest = 1e9, folded_at = clock_timestamp() + interval '1 h'"
    ),
}


class Silent(Doorbell):
    """Rings nobody: there is no broker here, and no worker."""

    def __init__(self) -> None:
        super().__init__(Celery())
        self.rung: list[str] = []

    async def ring_workers(self, deployment: str) -> None:
        self.rung.append(deployment)


@pytest.mark.parametrize("damage", DAMAGE)
async def test_a_lost_flow_is_found_again(world: World, objects: Objects, damage: str) -> None:
    flow = await world.batch(await world.tenant(), 3)
    boot = await world.worker()
    assert len(await world.claim(boot, 1)) == 1
    assert await world.claim(boot, 0) == []  # folds
    await world.execute(DAMAGE[damage].replace(":flow", f"'{flow}'"))
    assert len(await world.claim(boot, 8)) < 2, "the damage does nothing"
    bell = Silent()

    await Reconcile(Parts(world.database, objects, bell, world.policy)).run_once()

    assert bell.rung == [MODEL]
    await world.claim(boot, 8)
    await world.claim(boot, 8)
    assert await world.states() == {"running": 3}


async def test_in_order_nothing_is_touched(world: World) -> None:
    tenant = await world.tenant()
    for _ in range(3):
        await world.batch(tenant, 4)
    boot = await world.worker()
    for _ in range(4):
        await world.claim(boot, 2)
        async with world.database.begin() as connection:
            assert await reconcile.lost_flows(connection) == []
            assert await reconcile.refold(connection) == 0


async def test_a_flow_whose_last_job_has_ended_meanwhile_stays_ended(world: World) -> None:
    await world.batch(await world.tenant(), 1)
    await world.execute("UPDATE lane_accounts SET active = false")
    async with world.database.begin() as connection:
        [flow] = await reconcile.lost_flows(connection)
    await world.execute("DELETE FROM jobs")
    async with world.database.begin() as connection:
        assert not await reconcile.find_again(connection, flow)
    assert [row.active for row in await world.rows("SELECT active FROM lane_accounts")] == [False, False]


async def test_deltas_of_another_count_of_transactions_are_folded_again(world: World) -> None:
    """As in a database that was restored from a dump."""
    await world.batch(await world.tenant(), 4)
    boot = await world.worker()
    await world.claim(boot, 1)
    await world.execute(
        "UPDATE turnstiles SET folded_xid = folded_xid + 1000000, folded_at = clock_timestamp()"
    )
    await world.claim(boot, 1)
    assert len(await world.rows("SELECT FROM account_deltas WHERE kind = 'charge'")) == 2

    async with world.database.begin() as connection:
        assert await reconcile.refold(connection) == 1
    await world.claim(boot, 0)
    assert await world.rows("SELECT FROM account_deltas") == []
