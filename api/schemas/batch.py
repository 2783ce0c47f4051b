"""The Batch object, and the request that makes one."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, PlainValidator
from pydantic_core import PydanticCustomError

from api.schemas.file import unix
from api.schemas.storable import Storable
from db.batches import Batch
from lanes.batch import Window, completion_window
from lanes.ids import Prefix, spell

ENDPOINTS = Literal["/v1/chat/completions", "/v1/completions", "/v1/responses"]


def _window(text: object) -> Window:
    window = completion_window(text) if isinstance(text, str) else None
    if window is None:
        raise PydanticCustomError(
            "window", "Give a whole number and one of s, m, h, d, at most 30 days, such as 24h"
        )
    return window


_Key = Annotated[Storable, Field(max_length=64)]
_Value = Annotated[Storable, Field(max_length=512)]


class ExpiresAfter(BaseModel):
    model_config = ConfigDict(extra="forbid")

    anchor: Literal["created_at"]
    seconds: Annotated[int, Field(ge=3600, le=2_592_000)]


class BatchCreate(BaseModel):
    model_config = ConfigDict(extra="forbid")

    input_file_id: str
    endpoint: ENDPOINTS
    completion_window: Annotated[Window, PlainValidator(_window)]
    metadata: Annotated[dict[_Key, _Value], Field(max_length=16)] | None = None
    output_expires_after: ExpiresAfter | None = None
    on_invalid_line: Literal["reject", "record"] = "reject"  # an extension


class BatchQuery(BaseModel):
    limit: Annotated[int, Field(ge=1, le=100)] = 20
    after: str | None = None


class RequestCounts(BaseModel):
    total: int
    completed: int  # answered with status 200
    failed: int


class InputDetails(BaseModel):
    cached_tokens: int


class OutputDetails(BaseModel):
    reasoning_tokens: int


class BatchUsage(BaseModel):
    input_tokens: int
    input_tokens_details: InputDetails
    output_tokens: int
    output_tokens_details: OutputDetails
    total_tokens: int


class LineError(BaseModel):
    code: str
    message: str
    param: str | None = None
    line: int | None = None  # 1-based, blank lines counted


class LineErrors(BaseModel):
    object: Literal["list"] = "list"
    data: list[LineError]


class BatchObject(BaseModel):
    id: str
    object: Literal["batch"] = "batch"
    endpoint: str
    model: str | None
    errors: LineErrors | None
    input_file_id: str
    completion_window: str
    status: str
    output_file_id: str | None
    error_file_id: str | None
    created_at: int
    in_progress_at: int | None
    expires_at: int
    finalizing_at: int | None
    completed_at: int | None
    failed_at: int | None
    expired_at: int | None
    cancelling_at: int | None
    cancelled_at: int | None
    request_counts: RequestCounts
    usage: BatchUsage
    metadata: dict[str, str] | None
    # Extensions: how bad lines are treated, how many there are in truth, and the file of them all.
    on_invalid_line: str
    errors_total: int
    errors_file_id: str | None


def batch_object(batch: Batch) -> BatchObject:
    return BatchObject(
        id=spell(Prefix.BATCH, batch.id),
        endpoint=batch.endpoint,
        model=batch.model,
        errors=_errors(batch),
        input_file_id=spell(Prefix.FILE, batch.input_file_id),
        completion_window=batch.completion_window,
        status=batch.status,
        output_file_id=_file_id(batch.output_file_id),
        error_file_id=_file_id(batch.error_file_id),
        created_at=unix(batch.created_at),
        in_progress_at=_maybe(batch.in_progress_at),
        expires_at=unix(batch.expires_at),
        finalizing_at=_maybe(batch.finalizing_at),
        completed_at=_maybe(batch.completed_at),
        failed_at=_maybe(batch.failed_at),
        expired_at=_maybe(batch.expired_at),
        cancelling_at=_maybe(batch.cancelling_at),
        cancelled_at=_maybe(batch.cancelled_at),
        request_counts=RequestCounts(total=batch.total, completed=batch.succeeded, failed=batch.unsuccessful),
        usage=_usage(batch),
        metadata=None if batch.metadata is None else dict(batch.metadata),
        on_invalid_line=batch.on_invalid_line,
        errors_total=batch.errors_total,
        errors_file_id=_file_id(batch.errors_file_id),
    )


def _errors(batch: Batch) -> LineErrors | None:
    if not batch.errors:
        return None
    return LineErrors(data=[LineError.model_validate(error) for error in batch.errors])


def _usage(batch: Batch) -> BatchUsage:
    usage = batch.usage
    return BatchUsage(
        input_tokens=usage.input_tokens,
        input_tokens_details=InputDetails(cached_tokens=usage.cached_tokens),
        output_tokens=usage.output_tokens,
        output_tokens_details=OutputDetails(reasoning_tokens=usage.reasoning_tokens),
        total_tokens=usage.input_tokens + usage.output_tokens,
    )


def _file_id(uuid: UUID | None) -> str | None:
    return None if uuid is None else spell(Prefix.FILE, uuid)


def _maybe(time: datetime | None) -> int | None:
    return None if time is None else unix(time)
