"""Ending a batch: who may do it, what goes into its files, and the last write."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import Interval, cast, delete, exists, func, insert, or_, select, update
from sqlalchemy.ext.asyncio import AsyncEngine

from db.flows import end_flow
from db.sql import statement
from db.tables import batch_progress, batches, files, jobs, segments
from lanes.batch import BatchStatus

LEASE_SECONDS = 60
_NOW = func.clock_timestamp()
_LEASE = _NOW + cast(f"{LEASE_SECONDS} seconds", Interval)


@dataclass(frozen=True, slots=True)
class EndingBatch:
    """A batch without live jobs, held under `fence` by whoever finalises it."""

    id: UUID
    tenant_id: UUID
    fence: int
    total: int
    cancelling: bool
    output_expires_seconds: int | None


@dataclass(frozen=True, slots=True)
class Record:
    """One ended job as the files need it."""

    job_id: UUID
    line: int
    custom_id: str | None
    state: str
    status_code: int | None
    error_code: str | None
    body: bytes | None
    object_key: str | None  # where a large body lies
    byte_length: int | None
    input_tokens: int
    cached_tokens: int
    output_tokens: int
    reasoning_tokens: int
    late: bool  # expired because the batch's own window had ended


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A result file whose object is stored; `lines` 0 means that it is not offered."""

    object_key: str
    filename: str
    bytes: int
    lines: int


async def take_ending_batch(database: AsyncEngine) -> EndingBatch | None:
    """Take one batch whose last job has ended, or None. Others skip it until the lease runs out."""
    no_live_jobs = ~exists().where(jobs.c.batch_id == batches.c.id)
    # A batch cancelled while it was validated has no jobs at all, and its ingest gives up.
    ready = (
        select(batches.c.id)
        .where(
            batches.c.status.in_([BatchStatus.IN_PROGRESS, BatchStatus.FINALIZING, BatchStatus.CANCELLING]),
            or_(batches.c.lease_until.is_(None), batches.c.lease_until < _NOW),
            no_live_jobs,
        )
        .limit(1)
        .with_for_update(skip_locked=True)
    )
    async with database.begin() as connection:
        row = (
            await connection.execute(
                update(batches)
                .where(batches.c.id.in_(ready.scalar_subquery()))
                .values(
                    status=func.replace(batches.c.status, BatchStatus.IN_PROGRESS, BatchStatus.FINALIZING),
                    finalizing_at=func.coalesce(batches.c.finalizing_at, _NOW),
                    fence=batches.c.fence + 1,
                    lease_until=_LEASE,
                )
                .returning(
                    batches.c.id,
                    batches.c.tenant_id,
                    batches.c.fence,
                    batches.c.total,
                    batches.c.status,
                    batches.c.output_expires_seconds,
                )
            )
        ).first()
    if row is None:
        return None
    cancelling = row.status == BatchStatus.CANCELLING
    return EndingBatch(
        row.id, row.tenant_id, row.fence, row.total or 0, cancelling, row.output_expires_seconds
    )


async def renew(database: AsyncEngine, batch: EndingBatch) -> bool:
    """Keep the batch for longer; False when another took it."""
    async with database.begin() as connection:
        kept = await connection.execute(
            update(batches)
            .where(batches.c.id == batch.id, batches.c.fence == batch.fence)
            .values(lease_until=_LEASE)
        )
        return kept.rowcount == 1


async def records(database: AsyncEngine, batch: EndingBatch, page: int) -> AsyncIterator[list[Record]]:
    """The batch's ended jobs in the order of its lines, in pages, each read in a transaction of its own."""
    line = 0
    while True:
        async with database.begin() as connection:
            rows = await connection.execute(
                statement("batch_records"), {"batch_id": batch.id, "after": line, "page": page}
            )
            found = [Record(*row) for row in rows]
        if not found:
            return
        yield found
        line = found[-1].line


async def close_batch(
    database: AsyncEngine,
    batch: EndingBatch,
    *,
    output: WrittenFile | None,
    errors: WrittenFile | None,
    status: BatchStatus,
    sums: dict[str, int],
) -> list[str] | None:
    """The last write: files, exact counts and the final status, all or nothing.

    Returns the object keys of the batch's input segments, which nothing needs any more; None when
    another took the batch meanwhile.
    """
    async with database.begin() as connection:
        ids: dict[str, UUID | None] = {"output_file_id": None, "error_file_id": None}
        for column, written in (("output_file_id", output), ("error_file_id", errors)):
            if written is not None:
                made = await connection.execute(
                    insert(files)
                    .values(
                        tenant_id=batch.tenant_id,
                        purpose="batch_output",
                        filename=written.filename,
                        bytes=written.bytes,
                        object_key=written.object_key,
                        expires_at=_expiry(batch),
                    )
                    .returning(files.c.id)
                )
                ids[column] = made.scalar_one()
        closed = await connection.execute(
            update(batches)
            .where(batches.c.id == batch.id, batches.c.fence == batch.fence)
            .values(
                status=status,
                lease_until=None,
                total=func.coalesce(batches.c.total, 0),
                **{f"{status}_at": _NOW},
                **ids,
                **sums,
            )
        )
        if closed.rowcount == 0:
            await connection.rollback()
            return None
        await end_flow(connection, batch.tenant_id, batch.id)
        await connection.execute(delete(batch_progress).where(batch_progress.c.batch_id == batch.id))
        gone = await connection.execute(
            delete(segments)
            .where(segments.c.batch_id == batch.id, segments.c.kind == "input")
            .returning(segments.c.object_key)
        )
        return list(gone.scalars())


def _expiry(batch: EndingBatch) -> object:
    seconds = batch.output_expires_seconds or 30 * 24 * 3600
    return _NOW + cast(f"{seconds} seconds", Interval)
