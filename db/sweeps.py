"""Sweeps over live jobs: each moves one bounded chunk and says how many rows it moved."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from db.prices import prices
from db.sql import statement
from lanes import failure, transitions
from lanes.failure import Failure
from lanes.policy import Policy
from lanes.transitions import Transition

CHUNK = 5_000
PROGRESS_ROWS = 200  # folding starts above this; readers add what is not folded


@dataclass(frozen=True, slots=True)
class Due:
    """Which kinds of maintenance have something to do."""

    sweep: bool  # jobs to rescue, expire, cancel, stop, wake or age, or progress to fold
    finalise: bool
    ingest: bool


async def expire_queued(connection: AsyncConnection, policy: Policy) -> int:
    """Queued jobs past their deadline end as expired."""
    return await _end(connection, "pick_expired", {}, transitions.EXPIRE, failure.EXPIRED, policy)


async def cancel_queued(connection: AsyncConnection, policy: Policy) -> int:
    """Queued jobs of a batch being cancelled end as cancelled."""
    return await _end(connection, "pick_cancelled", {}, transitions.CANCEL, failure.CANCELLED, policy)


async def bury(connection: AsyncConnection, policy: Policy) -> int:
    """Jobs that were asked to stop, and whose worker is gone, end as they were asked to."""
    picked = "pick_orphaned_stops"
    cancelled = await _end(
        connection, picked, {"ending": "cancelled"}, transitions.BURY_CANCELLED, failure.CANCELLED, policy
    )
    expired = await _end(
        connection, picked, {"ending": "expired"}, transitions.BURY_EXPIRED, failure.EXPIRED, policy
    )
    return cancelled + expired


async def stop_running(connection: AsyncConnection) -> int:
    """Running jobs that must not go on are asked to stop."""
    return (await connection.execute(statement("stop_running"))).rowcount


async def wake_delayed(connection: AsyncConnection) -> int:
    """Jobs whose wait is over may be claimed again."""
    return int((await connection.execute(statement("wake_delayed"))).scalar_one())


async def age_ranks(connection: AsyncConnection, policy: Policy) -> int:
    """Jobs that have waited long go before what comes in meanwhile."""
    aged = await connection.execute(
        statement("age_ranks"), {"age_seconds": policy.age_seconds, "chunk": CHUNK}
    )
    return int(aged.scalar_one())


async def due(connection: AsyncConnection, policy: Policy) -> Due:
    """What there is to do, in one statement; nothing is changed."""
    given = {"progress_rows": PROGRESS_ROWS, "age_seconds": policy.age_seconds}
    row = (await connection.execute(statement("due"), given)).one()
    return Due(row.sweep, row.finalise, row.ingest)


async def fold_progress(connection: AsyncConnection) -> int:
    """Progress rows are added to their batches."""
    return int((await connection.execute(statement("fold_progress"), {"chunk": CHUNK})).scalar_one())


async def make_partitions(connection: AsyncConnection, days_ahead: int = 3) -> None:
    """The partitions of the coming days exist before the first job ends in them."""
    await connection.execute(
        text(
            "SELECT fairlane_make_partitions((clock_timestamp() AT TIME ZONE 'UTC')::date + day)"
            " FROM generate_series(0, :ahead) AS day"
        ),
        {"ahead": days_ahead},
    )


async def _end(
    connection: AsyncConnection,
    pick: str,
    where: dict[str, str],
    transition: Transition,
    reason: Failure,
    policy: Policy,
) -> int:
    picked = await connection.execute(statement(pick), where | {"chunk": CHUNK})
    ids = [row.id for row in picked]
    if not ids:
        return 0
    ended = await connection.execute(
        statement("end_unrun"),
        {
            "job_ids": ids,
            "sources": sorted(transition.sources),
            "state": transition.target,
            "error_code": reason.code,
        }
        | prices(policy),
    )
    return int(ended.scalar_one())
