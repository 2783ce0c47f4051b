"""The schema as SQLAlchemy sees it; a test holds it equal to what the migrations make."""

from __future__ import annotations

from db.tables.accounts import account_deltas, lane_accounts, turnstiles
from db.tables.batches import batch_progress, batches, segments
from db.tables.files import files
from db.tables.jobs import jobs, jobs_done, outcomes
from db.tables.learned import length_deltas, output_lengths, service_rates
from db.tables.metadata import metadata
from db.tables.requests import idempotency_keys, job_attempts, job_requests
from db.tables.serving import deployments, replicas
from db.tables.tenants import admin_keys, api_keys, tenants

__all__ = [
    "account_deltas",
    "admin_keys",
    "api_keys",
    "batch_progress",
    "batches",
    "deployments",
    "files",
    "idempotency_keys",
    "job_attempts",
    "job_requests",
    "jobs",
    "jobs_done",
    "lane_accounts",
    "length_deltas",
    "metadata",
    "outcomes",
    "output_lengths",
    "replicas",
    "segments",
    "service_rates",
    "tenants",
    "turnstiles",
]
