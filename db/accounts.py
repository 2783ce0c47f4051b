"""Fairness accounts, from the side of those who queue jobs."""

from __future__ import annotations

from uuid import UUID

from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from db.sql import statement
from db.tables import turnstiles
from db.tables.accounts import TENANT_LEVEL
from lanes.lane import Lane


async def activate(
    connection: AsyncConnection, model: str, lane: Lane, tenant_id: UUID, flow_id: UUID
) -> None:
    """Let claims see the jobs that this transaction queues for a flow in a lane of a model.

    Call it late in the transaction: what it locks stays locked to the end. With several models,
    call it in the order of their names.
    """
    # A turnstile is never removed, so doing nothing on a conflict is safe for it, and only for it.
    await connection.execute(insert(turnstiles).values(model=model, lane=int(lane)).on_conflict_do_nothing())
    await connection.execute(
        statement("activate"),
        {
            "model": model,
            "lane": int(lane),
            "tenant_id": tenant_id,
            "flow_id": flow_id,
            "tenant_level": TENANT_LEVEL,
        },
    )
