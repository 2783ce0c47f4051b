"""Tenants and their API keys, and the keys of operators."""

from __future__ import annotations

from sqlalchemy import (
    ARRAY,
    BigInteger,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    SmallInteger,
    Table,
    Text,
    Uuid,
    text,
)

from db.tables.metadata import TIMESTAMP, made_at, made_id, metadata

tenants = Table(
    "tenants",
    metadata,
    made_id(),
    Column("name", Text, nullable=False, unique=True),
    Column("weight", Double, nullable=False, server_default=text("1")),
    made_at(),
    Column("lanes", ARRAY(SmallInteger), nullable=False, server_default=text("'{0,1,2}'::smallint[]")),
    Column("requests_per_minute", Integer),
    Column("tokens_per_minute", BigInteger),
    Column("concurrency", Integer),
    Column("queued_tokens", BigInteger),
    Column("trust_group", Text),
)

api_keys = Table(
    "api_keys",
    metadata,
    made_id(),
    Column("tenant_id", Uuid, ForeignKey("tenants.id"), nullable=False),
    Column("short_token", Text, nullable=False, unique=True),
    Column("secret_hash", LargeBinary, nullable=False),
    Column("name", Text, nullable=False),
    made_at(),
    Column("expires_at", TIMESTAMP),
    Column("revoked_at", TIMESTAMP),
    Column("last_used_at", TIMESTAMP),
    Index("api_keys_tenant", "tenant_id"),
)

admin_keys = Table(
    "admin_keys",
    metadata,
    made_id(),
    Column("short_token", Text, nullable=False, unique=True),
    Column("secret_hash", LargeBinary, nullable=False),
    Column("name", Text, nullable=False),
    made_at(),
    Column("revoked_at", TIMESTAMP),
)
