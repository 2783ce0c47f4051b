"""Deployments (a model with engine settings) and replicas (one running engine each)."""

from __future__ import annotations

from sqlalchemy import Column, ForeignKey, Index, Integer, Table, Text, Uuid, text

from db.tables.metadata import TIMESTAMP, made_at, metadata

deployments = Table(
    "deployments",
    metadata,
    Column("name", Text, primary_key=True),
    Column("engine", Text, nullable=False),
    Column("context_tokens", Integer, nullable=False),
    made_at(),
)

replicas = Table(
    "replicas",
    metadata,
    Column("boot_id", Uuid, primary_key=True),
    Column("deployment", Text, ForeignKey("deployments.name"), nullable=False),
    Column("host", Text, nullable=False),
    Column("pid", Integer, nullable=False),
    Column("seats", Integer, nullable=False),
    Column("state", Text, nullable=False),
    made_at("started_at"),
    Column("lease_until", TIMESTAMP, nullable=False),
    Column("stopped_at", TIMESTAMP),
    Index("replicas_alive", "deployment", postgresql_where=text("stopped_at IS NULL")),
)
