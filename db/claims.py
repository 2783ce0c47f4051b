"""Claiming a slice: one short transaction under the turnstile of a model and lane."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import Row
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from db.prices import prices
from db.sql import statement
from lanes.job import ClaimedJob, Lease
from lanes.lane import Lane
from lanes.plan import FlowAccount, Snapshot, Take, plan
from lanes.policy import Policy

_LATE_JOBS = 256  # how many late jobs at the head of a flow a claim looks past


async def claim(
    engine: AsyncEngine, *, model: str, lane: Lane, boot_id: UUID, free_seats: int, policy: Policy
) -> list[ClaimedJob]:
    """Lease up to `free_seats` jobs to the worker `boot_id`, fairly among tenants and flows.

    Empty when nothing is queued, or when the worker is no longer a live replica. The turnstile
    is held for three round trips: fold, snapshot, claim.
    """
    scope = {"model": model, "lane": int(lane)}
    async with engine.begin() as connection:
        cost_per_second = await _enter_turnstile(connection, scope)
        if cost_per_second is None:
            return []
        folded = await connection.execute(
            statement("fold_deltas"), scope | {"turnstile_seconds": policy.turnstile_seconds}
        )
        limits = {
            "lowest": folded.scalar_one(),
            "accounts": policy.accounts_per_seat * min(free_seats, policy.slice_jobs),
            "flows": policy.flows_per_tenant,
            "late_jobs": _LATE_JOBS,
        }
        rows = (await connection.execute(statement("snapshot"), scope | prices(policy) | limits)).all()
        # The draw decides nothing alone: it makes many small plans keep a share together.
        draw = random.random()  # noqa: S311  # spreads rounding, keeps no secret
        flows = [_account(row) for row in rows]
        takes = plan(Snapshot(free_seats, flows, cost_per_second, draw=draw), policy)
        if not takes:
            return []
        claimed = await connection.execute(
            statement("claim"), scope | prices(policy) | {"boot_id": boot_id} | _columns(takes, rows)
        )
        return [_job(row) for row in claimed]


async def claim_suspects(
    engine: AsyncEngine, *, model: str, boot_id: UUID, policy: Policy
) -> list[ClaimedJob]:
    """Lease one whole group of suspects to a worker whose engine is empty; empty when none waits."""
    async with engine.begin() as connection:
        claimed = await connection.execute(
            statement("claim_suspects"), {"model": model, "boot_id": boot_id} | prices(policy)
        )
        return [_job(row) for row in claimed]


async def suspects_wait_seconds(engine: AsyncEngine, model: str) -> float | None:
    """For how long the oldest group of suspects has waited for an empty engine; None: there is none."""
    async with engine.connect() as connection:
        found = await connection.execute(statement("suspects_wait"), {"model": model})
        seconds: float | None = found.scalar_one_or_none()
        return seconds


async def _enter_turnstile(connection: AsyncConnection, scope: dict[str, object]) -> float | None:
    """Wait for the turnstile; the lane's measured service rate (0: not known). None: nothing was ever
    queued in this lane."""
    row = (await connection.execute(statement("enter_turnstile"), scope)).one_or_none()
    return None if row is None else row.cost_per_second


def _account(row: Row[Any]) -> FlowAccount:
    return FlowAccount(
        tenant_id=row.tenant_id,
        flow_id=row.flow_id,
        tenant_vtime=row.tenant_vtime,
        tenant_weight=row.tenant_weight,
        flow_vtime=row.flow_vtime,
        head_cost=row.head_cost,
        head_tokens=row.head_tokens,
        due_seconds=row.due_seconds,
        queued_jobs_left=row.jobs_left,
    )


def _columns(takes: Sequence[Take], rows: Sequence[Row[Any]]) -> dict[str, object]:
    """One array a column, as the statement unnests them; each flow with the place of its head job."""
    heads = {(row.tenant_id, row.flow_id): row for row in rows}
    taken = [heads[take.tenant_id, take.flow_id] for take in takes]
    return {
        "tenants": [take.tenant_id for take in takes],
        "flows": [take.flow_id for take in takes],
        "counts": [take.jobs for take in takes],
        "ranks": [row.rank for row in taken],
        "buckets": [row.bucket for row in taken],
        "ords": [row.ord for row in taken],
    }


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
        suspects=row.suspects,
    )
