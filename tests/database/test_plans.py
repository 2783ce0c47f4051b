"""Query plans: what runs every second never reads the queue from end to end."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

import psycopg
import pytest
from sqlalchemy import text

from db.accounts import activate
from db.sql import statement
from lanes.lane import Lane
from tests.world import MODEL, World

JOBS = 20_000
PRICES = {"input_cost": 1.0, "output_cost": 2.0}
SCOPE = {"model": MODEL, "lane": 2}


async def fill(world: World) -> tuple[UUID, UUID]:
    tenant = await world.tenant()
    flow = await world.batch(tenant, 1)
    await world.execute(
        "INSERT INTO jobs (tenant_id, flow_id, batch_id, segment_id, ord, deadline, bucket, line,"
        " byte_offset, byte_length, input_tokens, output_tokens, lane, model, endpoint)"
        " SELECT tenant_id, flow_id, batch_id, segment_id, n, deadline, bucket, n, 0, 10, 100, 50, 2,"
        " model, endpoint FROM jobs, generate_series(2, :jobs) AS n",
        jobs=JOBS,
    )
    async with world.database.begin() as connection:
        await activate(connection, MODEL, Lane.BULK, tenant, flow)
    # As the superuser: a role that does not own the tables is only warned, and nothing is done.
    url = world.database.url.render_as_string(hide_password=False).replace("+psycopg", "")
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE")
    return tenant, flow


def nodes(plan: dict[str, Any]) -> list[dict[str, Any]]:
    return [plan, *(node for child in plan.get("Plans", []) for node in nodes(child))]


@pytest.mark.parametrize(
    "name", ["due", "pick_expired", "pick_cancelled", "stop_running", "rescue", "snapshot", "claim"]
)
async def test_a_long_queue_is_not_read_through(world: World, name: str) -> None:
    tenant, flow = await fill(world)
    boot = await world.worker()
    given: dict[str, dict[str, object]] = {
        "due": {"progress_rows": 200},
        "pick_expired": {"chunk": 5_000},
        "pick_cancelled": {"chunk": 5_000},
        "stop_running": {},
        "rescue": {"chunk": 5_000, **PRICES},
        "snapshot": {"accounts": 256, **SCOPE, **PRICES},
        "claim": {
            "boot_id": boot, "tenants": [tenant], "flows": [flow], "counts": [32], **SCOPE, **PRICES,
        },
    }  # fmt: skip
    explained = text(f"EXPLAIN (ANALYZE, FORMAT JSON) {statement(name).text}")

    async with world.database.connect() as connection:
        found = (await connection.execute(explained, given[name])).scalar_one()
        await connection.rollback()

    plan = found if isinstance(found, list) else json.loads(found)
    read = {
        f"{node['Node Type']} {node.get('Index Name', node['Relation Name'])}": (
            node["Actual Rows"] + node.get("Rows Removed by Filter", 0)
        ) * node["Actual Loops"]
        for node in nodes(plan[0]["Plan"])
        if node.get("Relation Name") == "jobs" or node.get("Index Name", "").startswith("jobs_")
        if node["Actual Loops"]
    }  # fmt: skip
    assert all(rows <= 100 for rows in read.values()), read
