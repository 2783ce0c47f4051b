"""The life of a validation: taken under a lease, its segments named, and its one last write.

Whoever takes a batch raises its fence. Every write after that carries the fence, so that a
process that lost its batch, or whose batch was cancelled, changes nothing any more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import delete, select, text, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from db.accounts import activate
from db.sql import statement
from db.tables import batches, segments
from lanes.batch import Window, completion_window
from lanes.lane import Lane
from lanes.policy import Policy

_LONGEST_COMMIT = text("SET LOCAL statement_timeout = '30min'")  # a million rows on a slow disk


class ValidationLost(Exception):
    """Another process has the batch now, or it was cancelled: nothing was changed."""


@dataclass(frozen=True, slots=True)
class ValidatingBatch:
    """A batch that this process validates, for as long as it holds the fence."""

    id: UUID
    tenant_id: UUID
    fence: int
    endpoint: str
    on_invalid_line: str  # "reject" or "record"
    window: Window
    input_key: str  # object of the uploaded file


async def take_validating_batch(database: AsyncEngine, policy: Policy) -> ValidatingBatch | None:
    """The oldest batch that waits for validation, now under a lease; None when there is none."""
    async with database.begin() as connection:
        taken = await connection.execute(
            statement("ingest_take"), {"lease_seconds": policy.ingest_lease_seconds}
        )
        row = taken.one_or_none()
    if row is None:
        return None
    found = dict(row._mapping)
    window = completion_window(found.pop("completion_window"))
    if window is None:  # the api lets none pass that has no meaning
        raise ValueError(f"batch {row.id} has the completion window {row.completion_window!r}")
    return ValidatingBatch(**found, window=window)


async def renew(database: AsyncEngine, batch: ValidatingBatch, policy: Policy) -> bool:
    """Prolong the lease; False when it was lost or the batch was cancelled."""
    async with database.begin() as connection:
        return await _prolong(connection, batch, policy)


async def _prolong(connection: AsyncConnection, batch: ValidatingBatch, policy: Policy) -> bool:
    renewed = await connection.execute(
        statement("ingest_renew"), _fence(batch) | {"lease_seconds": policy.ingest_lease_seconds}
    )
    return renewed.one_or_none() is not None


async def let_go(database: AsyncEngine, batch: ValidatingBatch) -> None:
    """End our lease early, if it is still ours: a cancelled batch need not wait for it to run out."""
    async with database.begin() as connection:
        await connection.execute(
            update(batches)
            .where(batches.c.id == batch.id, batches.c.fence == batch.fence)
            .values(lease_until=None)
        )


async def name_segment(database: AsyncEngine, batch: ValidatingBatch, key: str, size: int) -> int:
    """Record an input segment that is about to be written; its id.

    Raises:
        ValidationLost: the batch is not ours any more.
    """
    async with database.begin() as connection:
        named = await connection.execute(
            statement("ingest_segment"), _fence(batch) | {"object_key": key, "bytes": size}
        )
        segment_id: int | None = named.scalar_one_or_none()
    if segment_id is None:
        raise ValidationLost
    return segment_id


async def input_segments(database: AsyncEngine, batch: ValidatingBatch, below_fence: int) -> Sequence[str]:
    """Object keys of the input segments that validations of this batch before a fence named."""
    async with database.begin() as connection:
        found = await connection.execute(
            select(segments.c.object_key).where(segments.c.batch_id == batch.id, segments.c.kind == "input")
        )
        keys = found.scalars().all()
    return [key for key in keys if _fence_of(key) < below_fence]


async def forget_segments(database: AsyncEngine, keys: Sequence[str]) -> None:
    """Remove the rows of segments whose objects are gone."""
    async with database.begin() as connection:
        await connection.execute(delete(segments).where(segments.c.object_key.in_(keys)))


def segment_key(batch: ValidatingBatch, number: int) -> str:
    return f"segments/{batch.id.hex}/{batch.fence}/{number}"


def errors_key(batch: ValidatingBatch, fence: int) -> str:
    """Object of the list of all errors, as the validation under that fence writes it."""
    return f"errors/{batch.id.hex}/{fence}"


async def start_batch(connection: AsyncConnection, batch: ValidatingBatch, policy: Policy) -> Sequence[str]:
    """Queue the staged lines and end the staged errors, all or nothing; the models to be rung.

    Raises:
        ValidationLost: the batch is not ours any more; nothing was changed.
    """
    try:
        async with connection.begin():
            return await _start(connection, batch, policy)
    except IntegrityError as error:
        # The lines are there already where another validation ended first; anything else is a fault.
        async with connection.begin():
            if await _prolong(connection, batch, policy):
                raise
        raise ValidationLost from error


async def _start(connection: AsyncConnection, batch: ValidatingBatch, policy: Policy) -> Sequence[str]:
    lane = {"batch_id": batch.id, "lane": int(Lane.BULK)}
    await connection.execute(_LONGEST_COMMIT)
    await connection.execute(statement("ingest_jobs"), lane | {"bucket_seconds": policy.bucket_seconds})
    await connection.execute(statement("ingest_bad_lines"), lane)
    found = await connection.execute(text("SELECT DISTINCT model FROM staged_lines ORDER BY model"))
    models: Sequence[str] = found.scalars().all()
    # The rows of others are locked last, and so only for a moment: first the batch, which a
    # cancel may want, then the accounts.
    started = await connection.execute(
        statement("ingest_start"), _fence(batch) | {"listed_errors": policy.listed_errors}
    )
    if started.one_or_none() is None:
        raise ValidationLost
    for model in models:
        await activate(connection, model, Lane.BULK, batch.tenant_id, batch.id)
    return models


async def fail_batch(
    connection: AsyncConnection, batch: ValidatingBatch, errors_bytes: int, policy: Policy
) -> None:
    """End the batch as failed, with its first errors and the stored list of all of them.

    Raises:
        ValidationLost: the batch is not ours any more; nothing was changed.
    """
    async with connection.begin():
        await connection.execute(_LONGEST_COMMIT)
        failed = await connection.execute(
            statement("ingest_fail"),
            _fence(batch)
            | {
                "object_key": errors_key(batch, batch.fence),
                "bytes": errors_bytes,
                "listed_errors": policy.listed_errors,
            },
        )
        if failed.one_or_none() is None:
            raise ValidationLost


def _fence(batch: ValidatingBatch) -> dict[str, object]:
    return {"batch_id": batch.id, "fence": batch.fence}


def _fence_of(key: str) -> int:
    return int(key.split("/")[2])
