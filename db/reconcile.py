"""Bringing accounts back in line with the queue, whatever made them differ, and their statistics."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import exists, select, text, update
from sqlalchemy.ext.asyncio import AsyncConnection

from db.accounts import activate
from db.sql import statement
from db.tables import account_deltas, jobs, turnstiles
from lanes.job import JobState
from lanes.lane import Lane

CHUNK = 1_000
_STATISTICS = text("ANALYZE (SKIP_LOCKED) lane_accounts, account_deltas, turnstiles, replicas")


@dataclass(frozen=True, slots=True)
class LostFlow:
    """A flow with a queued job that claims do not see."""

    model: str
    lane: Lane
    tenant_id: UUID
    flow_id: UUID


async def lost_flows(connection: AsyncConnection) -> list[LostFlow]:
    """A bounded number of them; in order there are none."""
    rows = await connection.execute(statement("lost_flows"), {"chunk": CHUNK})
    return [LostFlow(row.model, Lane(row.lane), row.tenant_id, row.flow_id) for row in rows]


async def find_again(connection: AsyncConnection, flow: LostFlow) -> bool:
    """Let claims see a flow again; False when it has no queued job any more.

    One of its jobs is held meanwhile, so that nobody ends the flow and leaves the accounts behind.
    """
    held = await connection.execute(
        select(jobs.c.id)
        .where(
            jobs.c.model == flow.model,
            jobs.c.lane == int(flow.lane),
            jobs.c.tenant_id == flow.tenant_id,
            jobs.c.flow_id == flow.flow_id,
            jobs.c.state == JobState.QUEUED,
        )
        .limit(1)
        .with_for_update(read=True, key_share=True, skip_locked=True)
    )
    if held.first() is None:
        return False
    await activate(connection, flow.model, flow.lane, flow.tenant_id, flow.flow_id)
    return True


async def refold(connection: AsyncConnection) -> int:
    """Let the next fold look at every delta of a lane that has one it would pass over; how many lanes.

    It never would, but in a database restored from a dump, where transactions are counted anew.
    """
    passed = exists().where(
        account_deltas.c.model == turnstiles.c.model,
        account_deltas.c.lane == turnstiles.c.lane,
        account_deltas.c.xid < turnstiles.c.folded_xid,
    )
    return (await connection.execute(update(turnstiles).where(passed).values(folded_xid=0))).rowcount


async def refresh_statistics(connection: AsyncConnection) -> None:
    """What the planner knows of the small tables that claims read."""
    await connection.execute(_STATISTICS)
