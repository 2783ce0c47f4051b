"""/v1/files"""

from __future__ import annotations

from functools import partial
from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Query, Request, Response
from starlette.responses import StreamingResponse

from api.auth import Caller
from api.multipart import read_parts
from api.repeats import REPLAYED, name_of
from api.schemas.file import FileDeleted, FileObject, FileQuery, file_object
from api.schemas.page import PageObject, page_object
from api.services import Use
from api.usecases.files import file_uuid, page_of_files, read_file, remove_file, show_file
from api.usecases.upload import upload_file
from db.page import PageRequest

router = APIRouter(prefix="/v1/files")


@router.post("")
async def upload(request: Request, response: Response, services: Use, caller: Caller) -> FileObject:
    parts = read_parts(request.headers.get("content-type", ""), request.stream())
    named = partial(name_of, request.headers, request.url.path, caller)
    file, replayed = await upload_file(services, caller.tenant_id, parts, named)
    if replayed:
        response.headers.update(REPLAYED)
    return file_object(file)


@router.get("")
async def list_all(
    query: Annotated[FileQuery, Query()], services: Use, caller: Caller
) -> PageObject[FileObject]:
    after = None if query.after is None else file_uuid(query.after, "after")
    wanted = PageRequest(query.limit, after, newest_first=query.order == "desc")
    page = await page_of_files(services, caller.tenant_id, wanted, query.purpose, query.after)
    return page_object([file_object(file) for file in page.items], page.has_more)


@router.get("/{file_id}")
async def show(file_id: str, services: Use, caller: Caller) -> FileObject:
    return file_object(await show_file(services, caller.tenant_id, file_id))


@router.get("/{file_id}/content")
async def content(file_id: str, services: Use, caller: Caller) -> StreamingResponse:
    found = await read_file(services, caller.tenant_id, file_id)
    headers = {
        "Content-Length": str(found.file.bytes),
        # The bytes are a client's: a browser shall save them, not show them.
        "Content-Disposition": f"attachment; filename*=UTF-8''{quote(found.file.filename, safe='')}",
        "X-Content-Type-Options": "nosniff",
    }
    return StreamingResponse(found.chunks, media_type="application/jsonl", headers=headers)


@router.delete("/{file_id}")
async def delete(file_id: str, services: Use, caller: Caller) -> FileDeleted:
    await remove_file(services, caller.tenant_id, file_id)
    return FileDeleted(id=file_id)
