"""Tenants and their API keys."""

from __future__ import annotations

from sqlalchemy import Column, Double, ForeignKey, Index, LargeBinary, Table, Text, Uuid, text

from db.tables.metadata import TIMESTAMP, made_at, made_id, metadata

tenants = Table(
    "tenants",
    metadata,
    made_id(),
    Column("name", Text, nullable=False, unique=True),
    Column("weight", Double, nullable=False, server_default=text("1")),
    made_at(),
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
