"""Tenants and their API keys: who is asking, and making new ones."""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from sqlalchemy import and_, func, insert, or_, select, text, update
from sqlalchemy.dialects import postgresql
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from db.key_format import KeyParts, make_key, parse_key
from db.tables import api_keys, tenants

DEFAULT_TENANT = "default"
_NO_HASH = bytes(32)
# Many requests share a key's row, so its time of use is written at most this often.
_LAST_USED_EVERY = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Principal:
    """Whoever a request comes from; the tenant is never taken from anything but the key."""

    tenant_id: UUID
    key_id: UUID


async def authenticate(engine: AsyncEngine, key: str) -> Principal | None:
    """The owner of a key; None alike for junk, unknown, revoked and expired keys."""
    parts = parse_key(key)
    if parts is None:
        return None
    async with engine.begin() as connection:
        return await _look_up(connection, parts)


async def _look_up(connection: AsyncConnection, parts: KeyParts) -> Principal | None:
    # Row-level security opens exactly the row of this token, before any tenant is known.
    await _set(connection, "fairlane.short_token", parts.short_token)
    now = func.clock_timestamp()
    unused = or_(api_keys.c.last_used_at.is_(None), api_keys.c.last_used_at < now - _LAST_USED_EVERY)
    valid = and_(
        api_keys.c.revoked_at.is_(None), or_(api_keys.c.expires_at.is_(None), api_keys.c.expires_at > now)
    )
    found = await connection.execute(
        select(
            api_keys.c.id,
            api_keys.c.tenant_id,
            api_keys.c.secret_hash,
            valid.label("valid"),
            unused.label("unused"),
        ).where(api_keys.c.short_token == parts.short_token)
    )
    row = found.one_or_none()
    # Compared also when there is no row, so that the time taken does not tell.
    same = hmac.compare_digest(parts.secret_hash, row.secret_hash if row else _NO_HASH)
    if row is None or not same or not row.valid:
        return None
    if row.unused:
        await _set(connection, "fairlane.tenant_id", str(row.tenant_id))
        await connection.execute(
            update(api_keys).where(api_keys.c.id == row.id, unused).values(last_used_at=now)
        )
    return Principal(tenant_id=row.tenant_id, key_id=row.id)


async def create_tenant(connection: AsyncConnection, name: str, weight: float = 1.0) -> UUID:
    """Make a tenant, as the engine role.

    Raises:
        IntegrityError: there is one of that name.
    """
    made = await connection.execute(insert(tenants).values(name=name, weight=weight).returning(tenants.c.id))
    tenant_id: UUID = made.scalar_one()
    return tenant_id


async def create_key(
    connection: AsyncConnection, tenant_id: UUID, name: str, expires_in: timedelta | None = None
) -> str:
    """Make a key, as the engine role. The answer is the only time that the key is seen whole."""
    key, parts = make_key()
    await connection.execute(
        insert(api_keys).values(
            tenant_id=tenant_id,
            short_token=parts.short_token,
            secret_hash=parts.secret_hash,
            name=name,
            expires_at=None if expires_in is None else func.clock_timestamp() + expires_in,
        )
    )
    return key


async def ensure_default_key(engine: AsyncEngine) -> str:
    """A new key of the tenant "default", made first where it is missing; by the engine role.

    Each call makes another key: the caller keeps the one it has.
    """
    async with engine.begin() as connection:
        await connection.execute(
            postgresql.insert(tenants).values(name=DEFAULT_TENANT).on_conflict_do_nothing()
        )
        found = await connection.execute(select(tenants.c.id).where(tenants.c.name == DEFAULT_TENANT))
        return await create_key(connection, found.scalar_one(), "local profile")


async def _set(connection: AsyncConnection, setting: str, value: str) -> None:
    await connection.execute(
        text("SELECT set_config(:setting, :value, true)"), {"setting": setting, "value": value}
    )
