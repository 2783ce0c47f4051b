"""What stands before a new job in its lane, for admission."""

from __future__ import annotations

from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection

from db.prices import prices
from db.sql import statement
from lanes.lane import Lane
from lanes.outlook import Load
from lanes.policy import Policy


async def load(
    connection: AsyncConnection,
    *,
    model: str,
    lane: Lane,
    tenant_id: UUID,
    flow_id: UUID,
    deadline_seconds: float,
    policy: Policy,
) -> Load:
    """The load of a lane as a new job of that flow would meet it.

    Takes a transaction of the tenant. No queue is read further than `policy.queued_jobs_limit` jobs: of a
    longer one the costs are too low, so that nobody is turned away for what was not seen.
    """
    found = await connection.execute(
        statement("load"),
        {
            "model": model, "lane": int(lane), "tenant_id": tenant_id, "flow_id": flow_id,
            "look": policy.queued_jobs_limit, "deadline_seconds": deadline_seconds,
            "bucket_seconds": policy.bucket_seconds,
        } | prices(policy),
    )  # fmt: skip
    row = found.one()
    return Load(
        ahead_cost=float(row.ahead_cost),
        flows_cost=float(row.flows_cost),
        flows=row.flows,
        lane_cost=float(row.queued_cost),
        queued_jobs=row.single_jobs,
        oldest_seconds=row.oldest_seconds,
        weight=row.weight,
        active_weights=row.weights if row.counted else row.weights + row.weight,
        cost_per_second=float(row.rate),
        seat_cost_per_second=row.seat_rate,
        replicas_ready=row.replicas,
    )
