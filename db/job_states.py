"""In which states jobs are, and nothing else of them: what is asked several times a second."""

from __future__ import annotations

from collections.abc import Collection
from uuid import UUID

from sqlalchemy import select, union_all
from sqlalchemy.ext.asyncio import AsyncConnection

from db.tables import jobs, jobs_done
from lanes.job import JobState


async def job_states(
    connection: AsyncConnection, tenant_id: UUID, job_ids: Collection[UUID]
) -> dict[UUID, JobState]:
    """The states of those of these jobs that the tenant has; in one statement, so that none that ends
    meanwhile is missed between the two tables."""
    rows = await connection.execute(
        union_all(
            *(
                select(table.c.id, table.c.state).where(
                    table.c.tenant_id == tenant_id, table.c.id.in_(list(job_ids))
                )
                for table in (jobs, jobs_done)
            )
        )
    )
    return {row.id: JobState(row.state) for row in rows}
