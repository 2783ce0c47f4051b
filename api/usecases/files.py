"""What can be done with files that are there."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from uuid import UUID

from api.refusals import NotFound
from api.services import Services
from db.connect import tenant_transaction
from db.files import File, delete_file, get_file, list_files
from db.page import Page, PageRequest, UnknownCursor
from lanes.ids import Prefix, parse


@dataclass(frozen=True, slots=True)
class Content:
    file: File
    chunks: AsyncIterator[bytes]


async def show_file(services: Services, tenant_id: UUID, public_id: str) -> File:
    """Raises: NotFound."""
    file_id = file_uuid(public_id)
    async with tenant_transaction(services.engine, tenant_id) as connection:
        file = await get_file(connection, tenant_id, file_id)
    if file is None:
        raise no_file(public_id)
    return file


async def read_file(services: Services, tenant_id: UUID, public_id: str) -> Content:
    """A file and its bytes. The first of them are fetched here, so that a failure is an error still.

    Raises:
        NotFound: no such file.
        ObjectLost: the store has lost its bytes.
    """
    file = await show_file(services, tenant_id, public_id)
    chunks = services.objects.stream(file.object_key)
    first = await anext(chunks, b"")
    return Content(file, _again(first, chunks))


async def page_of_files(
    services: Services, tenant_id: UUID, page: PageRequest, purpose: str | None, after: str | None
) -> Page[File]:
    """Raises: NotFound, when `after` names no file of the tenant."""
    async with tenant_transaction(services.engine, tenant_id) as connection:
        try:
            return await list_files(connection, tenant_id, page, purpose)
        except UnknownCursor:
            raise no_file(after or "", "after") from None


async def remove_file(services: Services, tenant_id: UUID, public_id: str) -> None:
    """Raises: NotFound."""
    file_id = file_uuid(public_id)
    async with tenant_transaction(services.engine, tenant_id) as connection:
        if not await delete_file(connection, tenant_id, file_id):
            raise no_file(public_id)


def file_uuid(public_id: str, param: str = "file_id") -> UUID:
    """The row behind a public id.

    Raises:
        NotFound: no file can have that id.
    """
    file_id = parse(Prefix.FILE, public_id)
    if file_id is None:
        raise no_file(public_id, param)
    return file_id


def no_file(public_id: str, param: str = "file_id") -> NotFound:
    return NotFound("file", public_id, param)


async def _again(first: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    async for chunk in rest:
        yield chunk
