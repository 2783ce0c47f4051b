"""Files: uploads and results. The bytes lie in object storage under `object_key`."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, ForeignKey, Index, Table, Text, UniqueConstraint, Uuid, text

from db.tables.metadata import TIMESTAMP, made_at, made_id, metadata

files = Table(
    "files",
    metadata,
    made_id(),
    Column("tenant_id", Uuid, ForeignKey("tenants.id"), nullable=False),
    Column("purpose", Text, nullable=False),
    Column("filename", Text, nullable=False),
    Column("bytes", BigInteger, nullable=False),
    Column("object_key", Text, nullable=False, unique=True),
    made_at(),
    Column("expires_at", TIMESTAMP),
    Column("deleted_at", TIMESTAMP),
    Column("erased_at", TIMESTAMP),
    UniqueConstraint("tenant_id", "id"),
    Index("files_listed", "tenant_id", "created_at", "id", postgresql_where=text("deleted_at IS NULL")),
    Index(
        "files_expiring",
        "expires_at",
        postgresql_where=text("deleted_at IS NULL AND expires_at IS NOT NULL"),
    ),
    Index(
        "files_unerased",
        "deleted_at",
        postgresql_where=text("deleted_at IS NOT NULL AND erased_at IS NULL"),
    ),
)
