"""/v1/batches"""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from fastapi import APIRouter, BackgroundTasks, Query, Request, Response

from api.auth import Caller
from api.repeats import REPLAYED, name_of
from api.schemas.batch import BatchCreate, BatchObject, BatchQuery, batch_object
from api.schemas.page import PageObject, page_object
from api.services import Use
from api.usecases.batches import batch_uuid, cancel_batch, make_batch, page_of_batches, show_batch
from api.usecases.files import file_uuid
from db.batches import NewBatch
from db.page import PageRequest

router = APIRouter(prefix="/v1/batches")


@router.post("")
async def create(
    wanted: BatchCreate,
    request: Request,
    response: Response,
    services: Use,
    caller: Caller,
    afterwards: BackgroundTasks,
) -> BatchObject:
    name = name_of(request.headers, request.url.path, caller, await request.json())
    batch, replayed = await make_batch(services, caller.tenant_id, _new_batch(wanted), name)
    if replayed:
        response.headers.update(REPLAYED)
        return batch_object(batch)
    # After the commit, and after the answer: a Redis that is away delays nobody.
    afterwards.add_task(services.doorbell.ring_ingest)
    return batch_object(batch)


@router.get("")
async def list_all(
    query: Annotated[BatchQuery, Query()], services: Use, caller: Caller
) -> PageObject[BatchObject]:
    after = None if query.after is None else batch_uuid(query.after, "after")
    page = await page_of_batches(services, caller.tenant_id, PageRequest(query.limit, after), query.after)
    return page_object([batch_object(batch) for batch in page.items], page.has_more)


@router.get("/{batch_id}")
async def show(batch_id: str, services: Use, caller: Caller) -> BatchObject:
    return batch_object(await show_batch(services, caller.tenant_id, batch_id))


@router.post("/{batch_id}/cancel")
async def cancel(batch_id: str, services: Use, caller: Caller) -> BatchObject:
    return batch_object(await cancel_batch(services, caller.tenant_id, batch_id))


def _new_batch(wanted: BatchCreate) -> NewBatch:
    output = wanted.output_expires_after
    return NewBatch(
        input_file_id=file_uuid(wanted.input_file_id, "input_file_id"),
        endpoint=wanted.endpoint,
        completion_window=wanted.completion_window.text,
        lasts=wanted.completion_window.lasts,
        metadata=wanted.metadata,
        output_lives=None if output is None else timedelta(seconds=output.seconds),
        on_invalid_line=wanted.on_invalid_line,
    )
