"""What fairness remembers: virtual time, deltas not folded yet, and the turnstile of each lane."""

from __future__ import annotations

from uuid import UUID

from sqlalchemy import (
    ARRAY,
    BigInteger,
    Boolean,
    Column,
    Double,
    Index,
    Integer,
    SmallInteger,
    Table,
    Text,
    Uuid,
    text,
)

from db.tables.metadata import TIMESTAMP, metadata

TENANT_LEVEL = UUID(int=0)  # the flow_id of a tenant's own account

_TENANTS = text(f"active AND flow_id = '{TENANT_LEVEL}'")
_FLOWS = text(f"active AND flow_id <> '{TENANT_LEVEL}'")

lane_accounts = Table(
    "lane_accounts",
    metadata,
    Column("model", Text, primary_key=True),
    Column("lane", SmallInteger, primary_key=True),
    Column("tenant_id", Uuid, primary_key=True),
    Column("flow_id", Uuid, primary_key=True),
    Column("vtime", Double, nullable=False, server_default=text("0")),
    Column("weight", Double, nullable=False, server_default=text("1")),
    Column("active", Boolean, nullable=False, server_default=text("true")),
    Column("start", Double, nullable=False, server_default=text("0")),
    Column("reserved", Double, nullable=False, server_default=text("0")),
    Column("lowest", Double, nullable=False, server_default=text("0")),
    Column("head", ARRAY(BigInteger)),
    Index("lane_accounts_tenants", "model", "lane", "vtime", postgresql_where=_TENANTS),
    Index("lane_accounts_flows", "model", "lane", "tenant_id", "vtime", postgresql_where=_FLOWS),
)

account_deltas = Table(
    "account_deltas",
    metadata,
    Column("job_id", Uuid, primary_key=True),
    Column("fence", Integer, primary_key=True),
    Column("kind", Text, primary_key=True),
    Column("model", Text, nullable=False),
    Column("lane", SmallInteger, nullable=False),
    Column("tenant_id", Uuid, nullable=False),
    Column("flow_id", Uuid, nullable=False),
    Column("cost", Double, nullable=False),
    Column("reserved", Double),
    Column("xid", BigInteger, nullable=False, server_default=text("pg_current_xact_id()::text::bigint")),
    Column("head", ARRAY(BigInteger)),
    Index("account_deltas_lane", "model", "lane", "xid"),
)

turnstiles = Table(
    "turnstiles",
    metadata,
    Column("model", Text, primary_key=True),
    Column("lane", SmallInteger, primary_key=True),
    Column("floor", Double, nullable=False, server_default=text("0")),
    Column("lowest", Double, nullable=False, server_default=text("0")),
    Column("folded_xid", BigInteger, nullable=False, server_default=text("0")),
    Column("folded_at", TIMESTAMP),
)
