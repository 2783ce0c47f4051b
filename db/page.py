"""Lists by keyset: a page starts after a given row, so it costs the same however far one reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, TypeVar
from uuid import UUID

from sqlalchemy import Row, Select, Table, select, tuple_
from sqlalchemy.ext.asyncio import AsyncConnection

Item = TypeVar("Item")


class UnknownCursor(LookupError):
    """The row that a page should start after is not this tenant's, or is not there."""


@dataclass(frozen=True, slots=True)
class Page(Generic[Item]):
    items: tuple[Item, ...]
    has_more: bool


@dataclass(frozen=True, slots=True)
class PageRequest:
    """`limit` rows after the row `after`, by creation, newest first unless said otherwise."""

    limit: int
    after: UUID | None = None
    newest_first: bool = True


async def read_page(
    connection: AsyncConnection, query: Select[Any], table: Table, tenant_id: UUID, page: PageRequest
) -> tuple[list[Row[Any]], bool]:
    """The rows of a page of `query` over `table`, and whether more follow.

    The row named by `after` may be hidden meanwhile: its place in the order still counts.

    Raises:
        UnknownCursor: this tenant never had that row.
    """
    place = tuple_(table.c.created_at, table.c.id)
    if page.after is not None:
        found = await connection.execute(
            select(table.c.created_at, table.c.id).where(
                table.c.tenant_id == tenant_id, table.c.id == page.after
            )
        )
        last = found.one_or_none()
        if last is None:
            raise UnknownCursor
        start = tuple_(last.created_at, last.id)
        query = query.where(place < start if page.newest_first else place > start)
    order = (table.c.created_at, table.c.id)
    query = query.order_by(*(column.desc() if page.newest_first else column.asc() for column in order))
    rows = (await connection.execute(query.limit(page.limit + 1))).all()
    return list(rows[: page.limit]), len(rows) > page.limit
