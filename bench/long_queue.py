"""A database with a long queue in it: many tenants, each with one batch, and jobs to claim."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self
from uuid import UUID, uuid4

import psycopg
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from db import replicas, reports
from db.claims import claim
from db.connect import Role, connect
from db.embedded import EmbeddedServers
from db.objects import Objects
from db.replicas import ReplicaState
from db.settings import with_driver
from lanes.job import Lease
from lanes.lane import Lane
from lanes.policy import DEFAULT
from lanes.report import Finished
from lanes.usage import Usage
from migrations.run import upgrade

MODEL = "bench"
SLICE = 32

# Tenants of weights 1 to 8, at different virtual times; job n of a tenant is line n of its batch.
_FILL = """
INSERT INTO deployments (name, engine, context_tokens) VALUES ('bench', 'simulated', 8192);
INSERT INTO tenants (name, weight)
SELECT 'tenant ' || n, 1 << (n % 4) FROM generate_series(1, {tenants}) AS n;
INSERT INTO files (tenant_id, purpose, filename, bytes, object_key)
SELECT id, 'batch', 'in.jsonl', 1, 'uploads/' || id FROM tenants;
INSERT INTO batches (tenant_id, endpoint, input_file_id, status, completion_window, total, expires_at)
SELECT tenant_id, '/v1/chat/completions', id, 'in_progress', '7d', {jobs} / {tenants},
    clock_timestamp() + interval '7 d'
FROM files;
INSERT INTO segments (tenant_id, batch_id, kind, object_key, bytes)
SELECT tenant_id, id, 'input', 'segments/' || id, 1 FROM batches;
INSERT INTO jobs (
    tenant_id, flow_id, batch_id, segment_id, ord, deadline, bucket, line, byte_offset, byte_length,
    input_tokens, output_tokens, lane, model, endpoint
)
SELECT b.tenant_id, b.id, b.id, s.id, n, b.expires_at, floor(extract(epoch FROM b.expires_at) / {bucket}),
    n, 0, 400, 50 + n % 100, 20 + n % 300, 2, 'bench', b.endpoint
FROM (SELECT *, row_number() OVER (ORDER BY id) - 1 AS number FROM batches) AS b
JOIN segments AS s ON s.batch_id = b.id
CROSS JOIN LATERAL generate_series(
    1, {jobs} / {tenants} + CASE WHEN b.number < {jobs} % {tenants} THEN 1 ELSE 0 END
) AS n;
INSERT INTO turnstiles (model, lane) VALUES ('bench', 2);
INSERT INTO lane_accounts (model, lane, tenant_id, flow_id, vtime, weight, active)
SELECT 'bench', 2, t.id, account.flow_id, abs(hashtext(t.name)) % 1000, account.weight,
    busy.flow_id IS NOT NULL
FROM tenants AS t JOIN batches AS b ON b.tenant_id = t.id
LEFT JOIN (SELECT DISTINCT flow_id FROM jobs) AS busy ON busy.flow_id = b.id
CROSS JOIN LATERAL (
    VALUES ('00000000-0000-0000-0000-000000000000'::uuid, t.weight), (b.id, 1)
) AS account(flow_id, weight);
"""
# What a claim is without any fairness: the first rows of the same table in the order of the same
# index, locked, leased and returned.
_BARE = text("""
WITH picked AS MATERIALIZED (
    SELECT id FROM jobs
    WHERE model = :model AND lane = :lane AND state = 'queued' AND not_before IS NULL AND suspects IS NULL
    ORDER BY tenant_id, flow_id, rank, bucket, ord
    LIMIT :slice FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE jobs SET state = 'running', fence = fence + 1, boot_id = :boot_id, claimed_at = clock_timestamp()
WHERE id = ANY (ARRAY(SELECT id FROM picked)) AND state = 'queued'
RETURNING id, fence, tenant_id, input_tokens, output_tokens
""")
_REFILL = text("""
INSERT INTO jobs (
    tenant_id, flow_id, batch_id, segment_id, ord, deadline, bucket, line, byte_offset, byte_length,
    input_tokens, output_tokens, lane, model, endpoint
)
SELECT b.tenant_id, b.id, b.id, s.id, made.line, b.expires_at,
    floor(extract(epoch FROM b.expires_at) / :bucket), made.line, 0, 400,
    50 + made.line % 100, 20 + made.line % 300, :lane, :model, b.endpoint
FROM unnest(CAST(:tenants AS uuid[]), CAST(:lines AS integer[])) AS made(tenant_id, line)
JOIN batches AS b ON b.tenant_id = made.tenant_id
JOIN segments AS s ON s.batch_id = b.id AND s.kind = 'input'
""")


@dataclass(frozen=True, slots=True)
class Claimed:
    """One claim: how long it took, from asking to the commit, and the leases it gave."""

    seconds: float
    reports: tuple[Finished, ...]  # what will end these jobs, used exactly as predicted


class LongQueue:
    """A database of its own on the servers of a bench; `open` fills it, `close` drops it."""

    def __init__(self, servers: EmbeddedServers, *, tenants: int, jobs: int, connections: int) -> None:
        self.tenants = tenants
        self.jobs = jobs
        self._name = f"bench_{uuid4().hex}"
        self._admin_url = servers.database_url
        self.url = servers.database_url.replace("/fairlane?", f"/{self._name}?")
        self._connections = connections
        self._next_line = jobs + 1  # above every line of the filling, and never given twice
        self._database: AsyncEngine | None = None
        self._boot_id = uuid4()

    async def __aenter__(self) -> Self:
        self._administer(f"CREATE DATABASE {self._name}")
        upgrade(self.url)
        _fill(self.url, self.tenants, self.jobs)
        self._database = connect(
            with_driver(self.url), Role.ENGINE, connections=self._connections, name="bench"
        )
        await replicas.register(
            self._database, boot_id=self._boot_id, deployment=MODEL, host="bench", pid=1, seats=SLICE,
            state=ReplicaState.READY, policy=DEFAULT,
        )  # fmt: skip
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._engine.dispose()
        self._administer(f"DROP DATABASE {self._name} WITH (FORCE)")

    @property
    def _engine(self) -> AsyncEngine:
        if self._database is None:
            raise RuntimeError("the queue is not open")
        return self._database

    async def fair_claim(self) -> Claimed:
        """A slice by the product's claim.

        Raises:
            ValueError: it was so short that its time says nothing.
        """
        began = time.perf_counter()
        jobs = await claim(
            self._engine, model=MODEL, lane=Lane.BULK, boot_id=self._boot_id, free_seats=SLICE, policy=DEFAULT
        )
        seconds = time.perf_counter() - began
        return _claimed(
            seconds,
            [_as_predicted(job.lease, job.tenant_id, job.input_tokens, job.output_tokens) for job in jobs],
        )

    async def bare_claim(self) -> Claimed:
        """A slice by SKIP LOCKED alone. Raises as `fair_claim`."""
        given = {"model": MODEL, "lane": int(Lane.BULK), "slice": SLICE, "boot_id": self._boot_id}
        began = time.perf_counter()
        async with self._engine.begin() as connection:
            rows = (await connection.execute(_BARE, given)).all()
        seconds = time.perf_counter() - began
        return _claimed(
            seconds,
            [
                _as_predicted(Lease(row.id, row.fence), row.tenant_id, row.input_tokens, row.output_tokens)
                for row in rows
            ],
        )

    async def replace(self, claims: Sequence[Claimed], objects: Objects) -> None:
        """End what was claimed as workers do, and queue as many new jobs for the same flows."""
        done = [report for claimed in claims for report in claimed.reports]
        ended = await reports.finish(self._engine, objects, done, DEFAULT)
        if len(ended) != len(done):
            raise ValueError(f"{len(done) - len(ended)} of {len(done)} leases were lost")
        lines = range(self._next_line, self._next_line + len(done))
        self._next_line = lines.stop
        async with self._engine.begin() as connection:
            await connection.execute(
                _REFILL,
                {
                    "tenants": [report.tenant_id for report in done], "lines": list(lines), "model": MODEL,
                    "lane": int(Lane.BULK), "bucket": DEFAULT.bucket_seconds,
                },
            )  # fmt: skip

    def _administer(self, command: str) -> None:
        with psycopg.connect(self._admin_url, autocommit=True) as connection:
            connection.execute(command.encode())


def _fill(url: str, tenants: int, jobs: int) -> None:
    """As the superuser, the indexes of the long table made after its rows: a tenth of the time."""
    with psycopg.connect(url, autocommit=True) as connection:
        indexes = connection.execute(
            "SELECT indexname, indexdef FROM pg_indexes WHERE tablename = 'jobs' AND indexname <> 'jobs_pkey'"
        ).fetchall()
        for name, _ in indexes:
            connection.execute(f"DROP INDEX {name}".encode())
        filling = _FILL.format(tenants=tenants, jobs=jobs, bucket=DEFAULT.bucket_seconds)
        connection.execute(filling.encode())
        for _, definition in indexes:
            connection.execute(definition.encode())
        # What autovacuum does within a minute of such a load.
        connection.execute("VACUUM (ANALYZE)")


def _as_predicted(lease: Lease, tenant_id: UUID, input_tokens: int, output_tokens: int) -> Finished:
    """The end of a job that used what was predicted for it, so that settling moves no account."""
    usage = Usage(input_tokens=input_tokens, output_tokens=output_tokens)
    return Finished(lease, tenant_id, "succeeded", 200, None, b"{}", usage, 1, 2)


def _claimed(seconds: float, done: list[Finished]) -> Claimed:
    if len(done) < SLICE / 2:  # where flows are short, others may be a few jobs ahead of the plan
        raise ValueError(f"a claim of {SLICE} gave {len(done)} jobs")
    return Claimed(seconds, tuple(done))
