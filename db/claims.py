"""Claiming a slice: one short transaction under the turnstile of a model and lane."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import Row, select
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from db.sql import statement
from db.tables import turnstiles
from lanes.job import ClaimedJob, Lease
from lanes.lane import Lane
from lanes.plan import FlowAccount, Snapshot, plan
from lanes.policy import Policy


async def claim(
    engine: AsyncEngine, *, model: str, lane: Lane, boot_id: UUID, free_seats: int, policy: Policy
) -> list[ClaimedJob]:
    """Lease up to `free_seats` jobs to the worker `boot_id`, fairly among tenants and flows.

    Empty when nothing is queued, or when the worker is no longer a live replica. The turnstile
    is held for three round trips: fold, snapshot, claim.
    """
    scope = {"model": model, "lane": int(lane)}
    prices = {"input_cost": policy.input_cost, "output_cost": policy.output_cost}
    async with engine.begin() as connection:
        if not await _enter_turnstile(connection, model, lane):
            return []
        await connection.execute(statement("fold_deltas"), scope)
        limit = policy.accounts_per_seat * min(free_seats, policy.slice_jobs)
        rows = (await connection.execute(statement("snapshot"), scope | prices | {"accounts": limit})).all()
        takes = plan(_snapshot(rows, free_seats), policy)
        if not takes:
            return []
        claimed = await connection.execute(
            statement("claim"),
            scope
            | prices
            | {
                "boot_id": boot_id,
                "tenants": [take.tenant_id for take in takes],
                "flows": [take.flow_id for take in takes],
                "counts": [take.jobs for take in takes],
            },
        )
        return [_job(row) for row in claimed]


async def _enter_turnstile(connection: AsyncConnection, model: str, lane: Lane) -> bool:
    """Wait for the turnstile. Without one nothing was ever queued in this lane."""
    row = await connection.execute(
        select(turnstiles.c.floor)
        .where(turnstiles.c.model == model, turnstiles.c.lane == int(lane))
        .with_for_update()
    )
    return row.first() is not None


def _snapshot(rows: Sequence[Row[Any]], free_seats: int) -> Snapshot:
    flows = [
        FlowAccount(row.tenant_id, row.flow_id, row.tenant_vtime, row.tenant_weight, row.flow_vtime)
        for row in rows
    ]
    mean_cost = sum(row.cost for row in rows) / len(rows) if rows else 0.0
    return Snapshot(free_seats, flows, mean_cost)


def _job(row: Row[Any]) -> ClaimedJob:
    return ClaimedJob(
        lease=Lease(row.id, row.fence),
        tenant_id=row.tenant_id,
        flow_id=row.flow_id,
        batch_id=row.batch_id,
        model=row.model,
        endpoint=row.endpoint,
        lane=Lane(row.lane),
        object_key=row.object_key,
        byte_offset=row.byte_offset,
        byte_length=row.byte_length,
        input_tokens=row.input_tokens,
        output_tokens=row.output_tokens,
        attempts=row.attempts,
        remaining_seconds=row.remaining_seconds,
    )
