"""Writing what workers report: every row under its fence, many rows a statement."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID, uuid4

from sqlalchemy import insert
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from db.lengths import BUCKET_BOUNDS
from db.objects import Objects
from db.prices import prices
from db.sql import statement
from db.tables import segments
from lanes.job import Lease
from lanes.policy import Policy
from lanes.report import Finished, GivenBack

INLINE_BYTES = 64 * 1024  # a larger outcome goes to a result segment of its own


async def finish(
    engine: AsyncEngine, objects: Objects, reports: Sequence[Finished], policy: Policy
) -> set[UUID]:
    """End these jobs; returns the ids that ended. The rest had lost their lease.

    Safe to repeat when the answer to a commit was lost: what ended already is left alone.
    """
    large = {
        report.lease: f"results/{report.lease.job_id.hex}/{uuid4().hex}"
        for report in reports
        if len(report.body or b"") > INLINE_BYTES
    }
    for report in reports:  # objects first: a row never names what is not there
        if report.lease in large:
            await objects.put(large[report.lease], report.body or b"")
    async with engine.begin() as connection:
        segment_ids = await _insert_segments(connection, reports, large)
        rows = await connection.execute(
            statement("finish"),
            _columns(reports, segment_ids) | prices(policy) | {"bounds": BUCKET_BOUNDS},
        )
        return {row.id for row in rows}


async def give_back(engine: AsyncEngine, reports: Sequence[GivenBack], policy: Policy) -> set[UUID]:
    """Return these jobs to the queue; the ids that went back."""
    async with engine.begin() as connection:
        rows = await connection.execute(
            statement("give_back"),
            {
                "job_ids": [report.lease.job_id for report in reports],
                "fences": [report.lease.fence for report in reports],
                "delays_ms": [report.delay_ms for report in reports],
                "blames": [report.blamed for report in reports],
                "groups": [report.suspects for report in reports],
            }
            | prices(policy),
        )
        return {row.id for row in rows}


async def _insert_segments(
    connection: AsyncConnection, reports: Sequence[Finished], keys: dict[Lease, str]
) -> dict[Lease, int]:
    if not keys:
        return {}
    large = [report for report in reports if report.lease in keys]
    made = await connection.execute(
        insert(segments).returning(segments.c.id, sort_by_parameter_order=True),
        [
            {
                "tenant_id": report.tenant_id,
                "kind": "result",
                "object_key": keys[report.lease],
                "bytes": len(report.body or b""),
            }
            for report in large
        ],
    )
    return dict(zip((report.lease for report in large), made.scalars(), strict=True))


def _columns(reports: Sequence[Finished], segment_ids: dict[Lease, int]) -> dict[str, object]:
    """One array a column, as the statement unnests them."""
    placed = [segment_ids.get(report.lease) for report in reports]
    bodies = [None if place else report.body for report, place in zip(reports, placed, strict=True)]
    return {
        "job_ids": [report.lease.job_id for report in reports],
        "fences": [report.lease.fence for report in reports],
        "states": [report.ending for report in reports],
        "status_codes": [report.status for report in reports],
        "error_codes": [report.failure.code if report.failure else None for report in reports],
        "input_tokens": [report.usage.input_tokens for report in reports],
        "cached_tokens": [report.usage.cached_tokens for report in reports],
        "output_tokens": [report.usage.output_tokens for report in reports],
        "reasoning_tokens": [report.usage.reasoning_tokens for report in reports],
        "started_ms": [report.started_ms for report in reports],
        "ended_ms": [report.ended_ms for report in reports],
        "bodies": bodies,
        "segment_ids": placed,
        "lengths": [
            len(report.body or b"") if place else None for report, place in zip(reports, placed, strict=True)
        ],
    }
