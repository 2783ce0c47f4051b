"""Replicas: registering, the heartbeat, and what it answers."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from uuid import UUID

from sqlalchemy import ColumnElement, Interval, case, cast, func, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from db.prices import prices
from db.sql import statement
from db.tables import jobs, replicas
from lanes.job import JobState, Lease
from lanes.policy import Policy


class ReplicaState(StrEnum):
    WARMING = "warming"
    READY = "ready"
    DRAINING = "draining"
    STOPPED = "stopped"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """What the database knows of this worker; `alive` False: its jobs are no longer its own."""

    alive: bool
    held: frozenset[Lease]  # running or asked to stop
    stopping: frozenset[Lease]  # asked to stop


_NOW = func.clock_timestamp()
_LIFE = (ReplicaState.WARMING, ReplicaState.READY, ReplicaState.DRAINING)


def _forward(state: ReplicaState) -> ColumnElement[str]:
    """This state, or the present one where that comes later in a worker's life."""
    later = _LIFE[_LIFE.index(state) + 1 :]
    return case((replicas.c.state.in_(later), replicas.c.state), else_=state.value)


def _lease(policy: Policy) -> object:
    return _NOW + cast(f"{policy.lease_seconds} seconds", Interval)


async def register(
    engine: AsyncEngine,
    *,
    boot_id: UUID,
    deployment: str,
    host: str,
    pid: int,
    seats: int,
    state: ReplicaState,
    policy: Policy,
) -> None:
    """A new worker, or the same process after it lost its lease, under a new boot id."""
    async with engine.begin() as connection:
        await connection.execute(
            insert(replicas).values(
                boot_id=boot_id,
                deployment=deployment,
                host=host,
                pid=pid,
                seats=seats,
                state=state,
                lease_until=_lease(policy),
            )
        )


async def beat(
    engine: AsyncEngine, boot_id: UUID, state: ReplicaState, seats: int, policy: Policy
) -> Heartbeat:
    """Renew the worker's lease, tell its state, and learn which jobs it holds.

    A beat that was on its way while the worker moved on does not take its state back.
    """
    async with engine.begin() as connection:
        renewed = await connection.execute(
            update(replicas)
            .where(replicas.c.boot_id == boot_id, replicas.c.stopped_at.is_(None))
            .values(state=_forward(state), seats=seats, lease_until=_lease(policy))
        )
        if renewed.rowcount == 0:
            return Heartbeat(False, frozenset(), frozenset())
        rows = (
            await connection.execute(
                select(jobs.c.id, jobs.c.fence, jobs.c.state).where(jobs.c.boot_id == boot_id)
            )
        ).all()
    return Heartbeat(
        True,
        frozenset(Lease(row.id, row.fence) for row in rows),
        frozenset(Lease(row.id, row.fence) for row in rows if row.state == JobState.CANCELLING),
    )


async def retire(engine: AsyncEngine, boot_id: UUID) -> None:
    """The worker leaves in order; whatever it still holds is given out again by the sweep."""
    async with engine.begin() as connection:
        await connection.execute(
            update(replicas)
            .where(replicas.c.boot_id == boot_id, replicas.c.stopped_at.is_(None))
            .values(state=ReplicaState.STOPPED, stopped_at=_NOW)
        )


async def mark_lost(connection: AsyncConnection) -> Collection[UUID]:
    """Workers whose lease ran out; from now on their heartbeats and claims are refused."""
    rows = await connection.execute(
        update(replicas)
        .where(replicas.c.stopped_at.is_(None), replicas.c.lease_until < _NOW)
        .values(state=ReplicaState.LOST, stopped_at=_NOW)
        .returning(replicas.c.boot_id)
    )
    return [row.boot_id for row in rows]


async def rescue(connection: AsyncConnection, chunk: int, policy: Policy) -> dict[str, int]:
    """Give out again what dead workers held; how many jobs of which model."""
    rows = await connection.execute(
        statement("rescue"),
        {"chunk": chunk} | prices(policy),
    )
    return {row.model: row.jobs for row in rows}
