"""Live jobs, ended jobs (partitioned by the day they ended) and their outcomes."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Date, Index, Integer, LargeBinary, SmallInteger, Table, Text, Uuid
from sqlalchemy import text as sql

from db.tables.metadata import TIMESTAMP, made_at, made_id, metadata

_ZERO = sql("0")

jobs = Table(
    "jobs",
    metadata,
    made_id(),
    Column("tenant_id", Uuid, nullable=False),
    Column("flow_id", Uuid, nullable=False),
    Column("batch_id", Uuid),
    Column("segment_id", BigInteger),
    Column("ord", BigInteger, nullable=False),
    Column("deadline", TIMESTAMP, nullable=False),
    Column("not_before", TIMESTAMP),
    made_at(),
    Column("claimed_at", TIMESTAMP),
    Column("boot_id", Uuid),
    Column("fence", Integer, nullable=False, server_default=_ZERO),
    Column("bucket", Integer, nullable=False),
    Column("line", Integer),
    Column("byte_offset", Integer),
    Column("byte_length", Integer),
    Column("input_tokens", Integer, nullable=False),
    Column("output_tokens", Integer, nullable=False),
    Column("lane", SmallInteger, nullable=False),
    Column("rank", SmallInteger, nullable=False, server_default=_ZERO),
    Column("attempts", SmallInteger, nullable=False, server_default=_ZERO),
    Column("state", Text, nullable=False, server_default=sql("'queued'")),
    Column("ending", Text),
    Column("model", Text, nullable=False),
    Column("endpoint", Text, nullable=False),
    Column("custom_id", Text),
    Column("suspects", Uuid),
    Column("suspected_at", TIMESTAMP),
    Index(
        "jobs_claimable",
        *("model", "lane", "tenant_id", "flow_id", "rank", "bucket", "ord"),
        postgresql_where=sql("state = 'queued' AND not_before IS NULL AND suspects IS NULL"),
    ),
    Index(
        "jobs_suspects",
        *("model", "suspected_at", "suspects"),
        postgresql_where=sql("suspects IS NOT NULL AND state = 'queued' AND not_before IS NULL"),
    ),
    Index(
        "jobs_ageing",
        "created_at",
        postgresql_where=sql("state = 'queued' AND rank > CASE WHEN batch_id IS NULL THEN -32768 ELSE 0 END"),
    ),
    Index("jobs_delayed", "not_before", postgresql_where=sql("not_before IS NOT NULL")),
    Index("jobs_deadline", "deadline"),
    Index("jobs_tenant", "tenant_id", "id"),
    Index("jobs_held", "boot_id", postgresql_where=sql("boot_id IS NOT NULL")),
    Index("jobs_batch_line", "batch_id", "line", unique=True, postgresql_where=sql("batch_id IS NOT NULL")),
)

jobs_done = Table(
    "jobs_done",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("finished_on", Date, primary_key=True),
    Column("tenant_id", Uuid, nullable=False),
    Column("flow_id", Uuid, nullable=False),
    Column("batch_id", Uuid),
    Column("line", Integer),
    Column("custom_id", Text),
    Column("model", Text, nullable=False),
    Column("endpoint", Text, nullable=False),
    Column("lane", SmallInteger, nullable=False),
    Column("state", Text, nullable=False),
    Column("fence", Integer, nullable=False),
    Column("attempts", SmallInteger, nullable=False),
    Column("boot_id", Uuid),
    Column("status_code", SmallInteger),
    Column("error_code", Text),
    Column("input_tokens", Integer, nullable=False, server_default=_ZERO),
    Column("cached_tokens", Integer, nullable=False, server_default=_ZERO),
    Column("output_tokens", Integer, nullable=False, server_default=_ZERO),
    Column("reasoning_tokens", Integer, nullable=False, server_default=_ZERO),
    Column("created_at", TIMESTAMP, nullable=False),
    Column("claimed_at", TIMESTAMP),
    Column("started_at", TIMESTAMP),
    Column("ended_at", TIMESTAMP),
    Column("finished_at", TIMESTAMP, nullable=False),
    Index("jobs_done_batch_line", "batch_id", "line", "finished_on", unique=True),
    Index("jobs_done_tenant", "tenant_id", "id"),
    postgresql_partition_by="RANGE (finished_on)",
)

outcomes = Table(
    "outcomes",
    metadata,
    Column("job_id", Uuid, primary_key=True),
    Column("finished_on", Date, primary_key=True),
    Column("tenant_id", Uuid, nullable=False),
    Column("body", LargeBinary),
    Column("segment_id", BigInteger),
    Column("byte_offset", Integer),
    Column("byte_length", Integer),
    postgresql_partition_by="RANGE (finished_on)",
)
