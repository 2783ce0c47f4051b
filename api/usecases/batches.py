"""What can be done with batches."""

from __future__ import annotations

from uuid import UUID

from api.refusals import IdempotencyKeyReused, InvalidValue, NotCancellable, NotFound
from api.services import Services
from api.usecases.files import no_file
from db.batches import Batch, NewBatch, create_batch, get_batch, list_batches, request_cancel
from db.connect import tenant_transaction
from db.files import get_file
from db.once import Name, OtherRequest, made_before, remember
from db.page import Page, PageRequest, UnknownCursor
from lanes.batch import BatchStatus
from lanes.ids import Prefix, parse, spell


async def make_batch(services: Services, tenant_id: UUID, new: NewBatch, name: Name) -> tuple[Batch, bool]:
    """A batch of a file that the tenant uploaded; it waits for validation.

    With it, whether an earlier try had made it.

    Raises:
        NotFound: no such file of that tenant.
        InvalidValue: the file is a result, not an upload.
        IdempotencyKeyReused: the client gave its key to another request.
    """
    async with tenant_transaction(services.engine, tenant_id) as connection:
        try:
            before = await made_before(connection, tenant_id, name)
        except OtherRequest:
            raise IdempotencyKeyReused from None
        if before is not None:
            batch = await get_batch(connection, tenant_id, before)
            if batch is None:
                raise _no_batch(spell(Prefix.BATCH, before))
            return batch, True
        file = await get_file(connection, tenant_id, new.input_file_id, hold=True)
        if file is None:
            raise no_file(spell(Prefix.FILE, new.input_file_id), "input_file_id")
        if file.purpose != "batch":
            raise InvalidValue("input_file_id", "Name a file that was uploaded with the purpose 'batch'.")
        made = await create_batch(connection, tenant_id, new)
        await remember(connection, tenant_id, name, made.id)
        return made, False


async def show_batch(services: Services, tenant_id: UUID, public_id: str) -> Batch:
    """Raises: NotFound."""
    batch_id = batch_uuid(public_id)
    async with tenant_transaction(services.engine, tenant_id) as connection:
        batch = await get_batch(connection, tenant_id, batch_id)
    if batch is None:
        raise _no_batch(public_id)
    return batch


async def page_of_batches(
    services: Services, tenant_id: UUID, page: PageRequest, after: str | None
) -> Page[Batch]:
    """Raises: NotFound, when `after` names no batch of the tenant."""
    async with tenant_transaction(services.engine, tenant_id) as connection:
        try:
            return await list_batches(connection, tenant_id, page)
        except UnknownCursor:
            raise _no_batch(after or "", "after") from None


async def cancel_batch(services: Services, tenant_id: UUID, public_id: str) -> Batch:
    """Ask a batch to stop; asking again changes nothing.

    Raises:
        NotFound: no such batch of that tenant.
        NotCancellable: it has ended, or only its files are left to be written.
    """
    batch_id = batch_uuid(public_id)
    async with tenant_transaction(services.engine, tenant_id) as connection:
        await request_cancel(connection, tenant_id, batch_id)
        batch = await get_batch(connection, tenant_id, batch_id)
    if batch is None:
        raise _no_batch(public_id)
    if batch.status is not BatchStatus.CANCELLING:
        raise NotCancellable(public_id, batch.status)
    return batch


def batch_uuid(public_id: str, param: str = "batch_id") -> UUID:
    """The row behind a public id.

    Raises:
        NotFound: no batch can have that id.
    """
    batch_id = parse(Prefix.BATCH, public_id)
    if batch_id is None:
        raise _no_batch(public_id, param)
    return batch_id


def _no_batch(public_id: str, param: str = "batch_id") -> NotFound:
    return NotFound("batch", public_id, param)
