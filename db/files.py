"""Files as the api sees them: made once their bytes are stored, hidden by deleting or expiry."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from sqlalchemy import ColumnElement, and_, func, insert, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from db.page import Page, PageRequest, read_page
from db.tables import files

_COLUMNS = (
    files.c.id,
    files.c.purpose,
    files.c.filename,
    files.c.bytes,
    files.c.object_key,
    files.c.created_at,
    files.c.expires_at,
)


@dataclass(frozen=True, slots=True)
class File:
    id: UUID
    purpose: str
    filename: str
    bytes: int
    object_key: str
    created_at: datetime
    expires_at: datetime | None


@dataclass(frozen=True, slots=True)
class NewFile:
    """A file whose bytes are stored under `object_key` already."""

    purpose: str
    filename: str
    bytes: int
    object_key: str
    lives: timedelta


async def add_file(connection: AsyncConnection, tenant_id: UUID, new: NewFile) -> File:
    now = func.statement_timestamp()  # one time for both, so that they differ by exactly `lives`
    made = await connection.execute(
        insert(files)
        .values(
            tenant_id=tenant_id,
            purpose=new.purpose,
            filename=new.filename,
            bytes=new.bytes,
            object_key=new.object_key,
            created_at=now,
            expires_at=now + new.lives,
        )
        .returning(*_COLUMNS)
    )
    return File(**made.mappings().one())


async def get_file(
    connection: AsyncConnection, tenant_id: UUID, file_id: UUID, *, hold: bool = False
) -> File | None:
    """A file of the tenant; None when it is hidden or not the tenant's.

    With `hold` it cannot be deleted before the transaction ends.
    """
    query = select(*_COLUMNS).where(_seen_by(tenant_id), files.c.id == file_id)
    found = await connection.execute(query.with_for_update(read=True) if hold else query)
    row = found.mappings().one_or_none()
    return None if row is None else File(**row)


async def list_files(
    connection: AsyncConnection, tenant_id: UUID, page: PageRequest, purpose: str | None = None
) -> Page[File]:
    """Files of the tenant, of one purpose or of all.

    Raises:
        UnknownCursor: the page starts after a file that this tenant never had.
    """
    query = select(*_COLUMNS).where(_seen_by(tenant_id))
    if purpose is not None:
        query = query.where(files.c.purpose == purpose)
    rows, has_more = await read_page(connection, query, files, tenant_id, page)
    return Page(tuple(File(**row._mapping) for row in rows), has_more)


async def delete_file(connection: AsyncConnection, tenant_id: UUID, file_id: UUID) -> bool:
    """Hide a file; maintenance erases its bytes once nothing needs them. False: no such file."""
    hidden = await connection.execute(
        update(files)
        .where(_seen_by(tenant_id), files.c.id == file_id)
        .values(deleted_at=func.clock_timestamp())
    )
    return hidden.rowcount == 1


def _seen_by(tenant_id: UUID) -> ColumnElement[bool]:
    """Own, not deleted, and not expired: expiry does not wait for the sweep that makes it final."""
    return and_(
        files.c.tenant_id == tenant_id,
        files.c.deleted_at.is_(None),
        or_(files.c.expires_at.is_(None), files.c.expires_at > func.clock_timestamp()),
    )
