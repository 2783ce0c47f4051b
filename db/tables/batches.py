"""Batches, their append-only progress, and the segments that hold their bodies."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Column,
    ForeignKey,
    ForeignKeyConstraint,
    Identity,
    Index,
    Integer,
    Table,
    Text,
    UniqueConstraint,
    Uuid,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB

from db.tables.metadata import TIMESTAMP, made_at, made_id, metadata

_ZERO = text("0")
_OPEN = text("status IN ('validating', 'in_progress', 'finalizing', 'cancelling')")

batches = Table(
    "batches",
    metadata,
    made_id(),
    Column("tenant_id", Uuid, ForeignKey("tenants.id"), nullable=False),
    Column("endpoint", Text, nullable=False),
    Column("input_file_id", Uuid, nullable=False),
    Column("status", Text, nullable=False, server_default=text("'validating'")),
    Column("completion_window", Text, nullable=False),
    Column("on_invalid_line", Text, nullable=False, server_default=text("'reject'")),
    Column("metadata", JSONB),
    Column("output_expires_seconds", Integer),
    Column("model", Text),
    Column("total", Integer),
    Column("errors", JSONB),
    Column("errors_total", Integer, nullable=False, server_default=_ZERO),
    Column("errors_file_id", Uuid),
    Column("output_file_id", Uuid),
    Column("error_file_id", Uuid),
    made_at(),
    Column("expires_at", TIMESTAMP, nullable=False),
    Column("in_progress_at", TIMESTAMP),
    Column("finalizing_at", TIMESTAMP),
    Column("completed_at", TIMESTAMP),
    Column("failed_at", TIMESTAMP),
    Column("expired_at", TIMESTAMP),
    Column("cancelling_at", TIMESTAMP),
    Column("cancelled_at", TIMESTAMP),
    Column("succeeded", Integer, nullable=False, server_default=_ZERO),
    Column("unsuccessful", Integer, nullable=False, server_default=_ZERO),
    Column("input_tokens", BigInteger, nullable=False, server_default=_ZERO),
    Column("cached_tokens", BigInteger, nullable=False, server_default=_ZERO),
    Column("output_tokens", BigInteger, nullable=False, server_default=_ZERO),
    Column("reasoning_tokens", BigInteger, nullable=False, server_default=_ZERO),
    Column("fence", Integer, nullable=False, server_default=_ZERO),
    Column("lease_until", TIMESTAMP),
    ForeignKeyConstraint(["tenant_id", "input_file_id"], ["files.tenant_id", "files.id"]),
    UniqueConstraint("tenant_id", "id"),
    Index("batches_listed", "tenant_id", "created_at", "id"),
    Index("batches_open", "status", postgresql_where=_OPEN),
)

batch_progress = Table(
    "batch_progress",
    metadata,
    Column("id", BigInteger, Identity(always=True), primary_key=True),
    Column("tenant_id", Uuid, nullable=False),
    Column("batch_id", Uuid, nullable=False),
    Column("succeeded", Integer, nullable=False),
    Column("unsuccessful", Integer, nullable=False),
    Column("input_tokens", BigInteger, nullable=False),
    Column("cached_tokens", BigInteger, nullable=False),
    Column("output_tokens", BigInteger, nullable=False),
    Column("reasoning_tokens", BigInteger, nullable=False),
    Index("batch_progress_batch", "batch_id"),
)

segments = Table(
    "segments",
    metadata,
    Column("id", BigInteger, Identity(), primary_key=True),
    Column("tenant_id", Uuid, nullable=False),
    Column("batch_id", Uuid),
    Column("kind", Text, nullable=False),
    Column("object_key", Text, nullable=False, unique=True),
    Column("bytes", BigInteger, nullable=False),
    made_at(),
    Index("segments_batch", "batch_id"),
)
