"""Everything that PostgreSQL holds of the queue, in the port's words."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import Row, text
from sqlalchemy.ext.asyncio import AsyncConnection

from db.objects import Objects
from db.tables.accounts import TENANT_LEVEL
from lanes.batch import BatchStatus
from lanes.job import JobState
from tests.conformance.port import FlowView, JobName, JobView, View

_JOBS = """
    SELECT flow_id, line, state, fence, boot_id, attempts, not_before IS NOT NULL AS delayed,
           suspects
    FROM jobs
    UNION ALL
    SELECT flow_id, line, state, fence, NULL, attempts, false, NULL FROM jobs_done
"""
_FLOWS = """
    SELECT b.id, b.status, b.total, b.output_file_id, b.error_file_id,
           b.succeeded + coalesce(p.succeeded, 0) AS succeeded,
           b.unsuccessful + coalesce(p.unsuccessful, 0) AS unsuccessful
    FROM batches AS b LEFT JOIN (
        SELECT batch_id, sum(succeeded) AS succeeded, sum(unsuccessful) AS unsuccessful
        FROM batch_progress GROUP BY batch_id
    ) AS p ON p.batch_id = b.id
"""
_ACCOUNTS = """
    SELECT a.tenant_id, a.flow_id, a.active, a.vtime + coalesce(sum(d.cost), 0) / a.weight AS vtime
    FROM lane_accounts AS a LEFT JOIN account_deltas AS d
        ON d.tenant_id = a.tenant_id AND a.flow_id IN (d.flow_id, :tenant_level)
    GROUP BY a.tenant_id, a.flow_id, a.active, a.vtime, a.weight
"""


async def read(connection: AsyncConnection, objects: Objects) -> View:
    """Raises: AssertionError, when a job is there twice: live and ended, or ended twice."""

    async def rows(query: str, **values: object) -> Sequence[Row[Any]]:
        return (await connection.execute(text(query), values)).all()

    jobs: dict[JobName, JobView] = {}
    for row in await rows(_JOBS):
        name = JobName(row.flow_id, row.line)
        assert name not in jobs, f"line {row.line} is there twice"
        jobs[name] = JobView(
            JobState(row.state), row.fence, row.attempts, row.boot_id, row.delayed, row.suspects
        )
    accounts = {
        (row.tenant_id, None if row.flow_id == TENANT_LEVEL else row.flow_id): row
        for row in await rows(_ACCOUNTS, tenant_level=TENANT_LEVEL)
    }
    return View(
        jobs=jobs,
        flows={row.id: await _flow(connection, objects, row) for row in await rows(_FLOWS)},
        live_workers=frozenset(
            row.boot_id for row in await rows("SELECT boot_id FROM replicas WHERE stopped_at IS NULL")
        ),
        active=frozenset(key for key, row in accounts.items() if row.active),
        vtimes={key: row.vtime for key, row in accounts.items()},
    )


async def _flow(connection: AsyncConnection, objects: Objects, row: Row[Any]) -> FlowView:
    status = BatchStatus(row.status)
    counts = (status, row.total, int(row.succeeded), int(row.unsuccessful))
    if not status.is_terminal:
        return FlowView(*counts)
    output = await _lines(connection, objects, row.output_file_id)
    return FlowView(*counts, output, await _lines(connection, objects, row.error_file_id))


async def _lines(connection: AsyncConnection, objects: Objects, file_id: UUID | None) -> tuple[int, ...]:
    """The lines that a result file has, as its records name them; none without a file."""
    if file_id is None:
        return ()
    found = await connection.execute(text("SELECT object_key FROM files WHERE id = :id"), {"id": file_id})
    data = b"".join([chunk async for chunk in objects.stream(found.scalar_one())])
    return tuple(sorted(int(json.loads(record)["custom_id"]) for record in data.splitlines()))
