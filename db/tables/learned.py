"""What was learned of finished jobs: how long answers are, and how fast lanes are served."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Double, Identity, Integer, SmallInteger, Table, Text, Uuid

from db.tables.metadata import TIMESTAMP, metadata

output_lengths = Table(
    "output_lengths",
    metadata,
    Column("tenant_id", Uuid, primary_key=True),
    Column("model", Text, primary_key=True),
    Column("input_bucket", SmallInteger, primary_key=True, autoincrement=False),
    Column("output_bucket", SmallInteger, primary_key=True, autoincrement=False),
    Column("jobs", BigInteger, nullable=False),
)

length_deltas = Table(
    "length_deltas",
    metadata,
    Column("id", BigInteger, Identity(always=True), primary_key=True),
    Column("tenant_id", Uuid, nullable=False),
    Column("model", Text, nullable=False),
    Column("lane", SmallInteger, nullable=False),
    Column("input_bucket", SmallInteger, nullable=False),
    Column("output_bucket", SmallInteger, nullable=False),
    Column("jobs", Integer, nullable=False),
    Column("cost", Double, nullable=False),
)

service_rates = Table(
    "service_rates",
    metadata,
    Column("model", Text, primary_key=True),
    Column("lane", SmallInteger, primary_key=True, autoincrement=False),
    Column("cost", Double, nullable=False),
    Column("jobs", Double, nullable=False),
    Column("seconds", Double, nullable=False),
    Column("measured_at", TIMESTAMP, nullable=False),
)
