"""What clients of single jobs asked for, attempts that ended before their job, and idempotency keys."""

from __future__ import annotations

from sqlalchemy import Column, Index, Integer, LargeBinary, Table, Text, Uuid
from sqlalchemy.dialects.postgresql import JSONB

from db.tables.metadata import TIMESTAMP, made_at, metadata

job_requests = Table(
    "job_requests",
    metadata,
    Column("job_id", Uuid, primary_key=True),
    Column("tenant_id", Uuid, nullable=False),
    Column("key_id", Uuid, nullable=False),
    Column("kind", Text, nullable=False),
    Column("body", LargeBinary),
    Column("metadata", JSONB),
    Column("deadline", TIMESTAMP, nullable=False),
    Column("decision", JSONB, nullable=False),
    made_at(),
    Column("deleted_at", TIMESTAMP),
    Index("job_requests_created", "created_at"),
)

job_attempts = Table(
    "job_attempts",
    metadata,
    Column("job_id", Uuid, primary_key=True),
    Column("fence", Integer, primary_key=True, autoincrement=False),
    Column("tenant_id", Uuid, nullable=False),
    Column("boot_id", Uuid, nullable=False),
    Column("claimed_at", TIMESTAMP, nullable=False),
    made_at("ended_at"),
    Column("reason", Text, nullable=False),
    Index("job_attempts_ended", "ended_at"),
)

idempotency_keys = Table(
    "idempotency_keys",
    metadata,
    Column("tenant_id", Uuid, primary_key=True),
    Column("endpoint", Text, primary_key=True),
    Column("key_hash", LargeBinary, primary_key=True),
    Column("request_digest", LargeBinary, nullable=False),
    Column("object_id", Uuid, nullable=False),
    made_at(),
    Column("expires_at", TIMESTAMP, nullable=False),
    Index("idempotency_keys_expiring", "expires_at"),
)
