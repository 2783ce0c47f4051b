"""One object for one name: what was made for an idempotency key is found by it, not made again."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from sqlalchemy import func, select, text
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from db.tables import idempotency_keys


@dataclass(frozen=True, slots=True)
class Name:
    """What a client calls the one thing that it wants made, and a digest of what it asked for."""

    endpoint: str
    key_hash: bytes
    request_digest: bytes
    lasts: timedelta
    anew: bool = False  # make it whatever was made by this name; later repeats find the new one


class OtherRequest(Exception):
    """The name is taken by a request that asked for something else."""


async def made_before(connection: AsyncConnection, tenant_id: UUID, name: Name) -> UUID | None:
    """The object of that name. Whoever else asks for it waits until this transaction ends.

    Raises:
        OtherRequest: the name was given to another request.
    """
    # A lock and not the row: the row needs its object's id, and the object must not be made twice.
    await connection.execute(
        text("SELECT pg_advisory_xact_lock(hashtextextended(:name, 0))"),
        {"name": f"{tenant_id} {name.endpoint} {name.key_hash.hex()}"},
    )
    if name.anew:
        return None
    keys = idempotency_keys.c
    found = await connection.execute(
        select(keys.object_id, keys.request_digest).where(
            keys.tenant_id == tenant_id,
            keys.endpoint == name.endpoint,
            keys.key_hash == name.key_hash,
            keys.expires_at > func.clock_timestamp(),
        )
    )
    row = found.one_or_none()
    if row is None:
        return None
    if row.request_digest != name.request_digest:
        raise OtherRequest
    object_id: UUID = row.object_id
    return object_id


async def remember(connection: AsyncConnection, tenant_id: UUID, name: Name, object_id: UUID) -> None:
    """Give an object that name, in the transaction that made it; an expired holder loses it."""
    now = func.clock_timestamp()
    says = {
        "request_digest": name.request_digest,
        "object_id": object_id,
        "created_at": now,
        "expires_at": now + name.lasts,
    }
    await connection.execute(
        insert(idempotency_keys)
        .values(tenant_id=tenant_id, endpoint=name.endpoint, key_hash=name.key_hash, **says)
        .on_conflict_do_update(index_elements=["tenant_id", "endpoint", "key_hash"], set_=says)
    )
