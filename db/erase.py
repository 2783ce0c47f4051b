"""What may be erased: files whose time is over, and objects that no row names."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import UUID

from sqlalchemy import exists, func, select, union, update
from sqlalchemy.ext.asyncio import AsyncConnection

from db.tables import batches, files, segments
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


async def a_day_ago(connection: AsyncConnection) -> datetime:
    """By the database's clock; no upload or validation is under way for that long without a row."""
    moment: datetime = (await connection.execute(select(_NOW - timedelta(days=1)))).scalar_one()
    return moment


async def unnamed(connection: AsyncConnection, keys: Sequence[str]) -> list[str]:
    """Those of the object keys that no row names: left by a process that died before its commit."""
    named = await connection.execute(
        union(
            select(files.c.object_key).where(files.c.object_key.in_(keys)),
            select(segments.c.object_key).where(segments.c.object_key.in_(keys)),
        )
    )
    return sorted(set(keys) - set(named.scalars()))
