"""Batches as the api sees them: made, read with their counts, listed, asked to stop."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import Row, Select, func, insert, null, select, true, update
from sqlalchemy.ext.asyncio import AsyncConnection

from db.page import Page, PageRequest, read_page
from db.tables import batch_progress, batches
from lanes.batch import NEXT, BatchStatus
from lanes.usage import Usage

_CANCELLABLE = [status for status, after in NEXT.items() if BatchStatus.CANCELLING in after]
# Their counts were made exact when they ended; progress rows that are left count no more.
_EXACT = [BatchStatus.COMPLETED, BatchStatus.EXPIRED, BatchStatus.CANCELLED]
_COUNTS = (
    "succeeded", "unsuccessful", "input_tokens", "cached_tokens", "output_tokens", "reasoning_tokens",
)  # fmt: skip
_PLAIN = (
    "id", "endpoint", "input_file_id", "completion_window", "on_invalid_line", "metadata", "model",
    "errors_total", "errors_file_id", "output_file_id", "error_file_id", "created_at", "expires_at",
    "in_progress_at", "finalizing_at", "completed_at", "failed_at", "expired_at", "cancelling_at",
    "cancelled_at",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class NewBatch:
    input_file_id: UUID
    endpoint: str
    completion_window: str  # as the client spelled it
    lasts: timedelta
    metadata: Mapping[str, str] | None
    output_lives: timedelta | None  # how long its output file is kept
    on_invalid_line: str


@dataclass(frozen=True, slots=True)
class Batch:
    id: UUID
    endpoint: str
    input_file_id: UUID
    status: BatchStatus
    completion_window: str
    on_invalid_line: str
    metadata: Mapping[str, str] | None
    model: str | None
    total: int  # 0 until the file is validated
    succeeded: int
    unsuccessful: int
    usage: Usage
    errors: tuple[Mapping[str, Any], ...]  # the first ones: code, message, param, line
    errors_total: int
    errors_file_id: UUID | None
    output_file_id: UUID | None
    error_file_id: UUID | None
    created_at: datetime
    expires_at: datetime
    in_progress_at: datetime | None
    finalizing_at: datetime | None
    completed_at: datetime | None
    failed_at: datetime | None
    expired_at: datetime | None
    cancelling_at: datetime | None
    cancelled_at: datetime | None


async def create_batch(connection: AsyncConnection, tenant_id: UUID, new: NewBatch) -> Batch:
    """A batch that waits for validation; its file is one of this tenant's."""
    now = func.statement_timestamp()  # one time for both, so that they differ by exactly the window
    lives = new.output_lives
    made = await connection.execute(
        insert(batches)
        .values(
            tenant_id=tenant_id,
            endpoint=new.endpoint,
            input_file_id=new.input_file_id,
            completion_window=new.completion_window,
            on_invalid_line=new.on_invalid_line,
            metadata=null() if new.metadata is None else dict(new.metadata),
            output_expires_seconds=None if lives is None else int(lives.total_seconds()),
            created_at=now,
            expires_at=now + new.lasts,
        )
        .returning(batches)
    )
    return _batch(made.one())


async def get_batch(connection: AsyncConnection, tenant_id: UUID, batch_id: UUID) -> Batch | None:
    found = await connection.execute(_counted(tenant_id).where(batches.c.id == batch_id))
    row = found.one_or_none()
    return None if row is None else _batch(row)


async def list_batches(connection: AsyncConnection, tenant_id: UUID, page: PageRequest) -> Page[Batch]:
    """Batches of the tenant.

    Raises:
        UnknownCursor: the page starts after a batch that this tenant never had.
    """
    rows, has_more = await read_page(connection, _counted(tenant_id), batches, tenant_id, page)
    return Page(tuple(_batch(row) for row in rows), has_more)


async def request_cancel(connection: AsyncConnection, tenant_id: UUID, batch_id: UUID) -> bool:
    """Move a batch to `cancelling`; False when its status does not allow it or it is not there."""
    moved = await connection.execute(
        update(batches)
        .where(batches.c.tenant_id == tenant_id, batches.c.id == batch_id, batches.c.status.in_(_CANCELLABLE))
        .values(status=BatchStatus.CANCELLING, cancelling_at=func.clock_timestamp())
    )
    return moved.rowcount == 1


def _counted(tenant_id: UUID) -> Select[Any]:
    """Batches with their counts: what is folded already, plus what is not, in one statement."""
    unfolded = (
        select(*(func.coalesce(func.sum(batch_progress.c[name]), 0).label(name) for name in _COUNTS))
        .where(batch_progress.c.batch_id == batches.c.id, batches.c.status.not_in(_EXACT))
        .lateral("unfolded")
    )
    counts = ((batches.c[name] + unfolded.c[name]).label(name) for name in _COUNTS)
    plain = (batches.c[name] for name in (*_PLAIN, "status", "total", "errors"))
    return select(*plain, *counts).join(unfolded, true()).where(batches.c.tenant_id == tenant_id)


def _batch(row: Row[Any]) -> Batch:
    return Batch(
        **{name: getattr(row, name) for name in _PLAIN},
        status=BatchStatus(row.status),
        total=row.total or 0,
        errors=tuple(row.errors or ()),
        succeeded=int(row.succeeded),
        unsuccessful=int(row.unsuccessful),
        usage=Usage(
            input_tokens=int(row.input_tokens),
            cached_tokens=int(row.cached_tokens),
            output_tokens=int(row.output_tokens),
            reasoning_tokens=int(row.reasoning_tokens),
        ),
    )
