"""Files whose time is over: hidden first, their bytes removed when nothing reads them any more."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from sqlalchemy import exists, func, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from db.tables import batches, files
from lanes.batch import BatchStatus

_NOW = func.clock_timestamp()


async def hide_expired(connection: AsyncConnection) -> int:
    """Files past their expiry are deleted as their owner would delete them."""
    hidden = await connection.execute(
        update(files).where(files.c.deleted_at.is_(None), files.c.expires_at <= _NOW).values(deleted_at=_NOW)
    )
    return hidden.rowcount


async def erasable(connection: AsyncConnection, limit: int) -> Sequence[tuple[UUID, str]]:
    """Deleted files whose bytes no batch still validates, as (id, object key)."""
    needed = exists().where(batches.c.input_file_id == files.c.id, batches.c.status == BatchStatus.VALIDATING)
    rows = await connection.execute(
        select(files.c.id, files.c.object_key)
        .where(files.c.deleted_at.is_not(None), files.c.erased_at.is_(None), ~needed)
        .limit(limit)
    )
    return [(row.id, row.object_key) for row in rows]


async def mark_erased(connection: AsyncConnection, ids: Sequence[UUID]) -> None:
    await connection.execute(update(files).where(files.c.id.in_(ids)).values(erased_at=_NOW))
