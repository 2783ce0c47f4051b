"""The File object, and what a list of files may be asked for."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import BaseModel, Field

from api.schemas.storable import Storable
from db.files import File
from lanes.ids import Prefix, spell


class FileObject(BaseModel):
    id: str
    object: Literal["file"] = "file"
    bytes: int
    created_at: int
    expires_at: int | None
    filename: str
    purpose: str
    status: Literal["processed"] = "processed"  # the lines are checked when a batch uses the file
    status_details: None = None


class FileDeleted(BaseModel):
    id: str
    object: Literal["file"] = "file"
    deleted: Literal[True] = True


class FileQuery(BaseModel):
    purpose: Storable | None = None
    limit: Annotated[int, Field(ge=1, le=10_000)] = 10_000
    order: Literal["asc", "desc"] = "desc"
    after: str | None = None


def file_object(file: File) -> FileObject:
    return FileObject(
        id=spell(Prefix.FILE, file.id),
        bytes=file.bytes,
        created_at=unix(file.created_at),
        expires_at=None if file.expires_at is None else unix(file.expires_at),
        filename=file.filename,
        purpose=file.purpose,
    )


def unix(time: datetime) -> int:
    """Whole seconds since 1970, as every time on the wire is."""
    return int(time.timestamp())
