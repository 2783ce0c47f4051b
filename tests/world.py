"""A small world in the database: a tenant, a batch, its queued jobs and a live worker."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID, uuid4

from sqlalchemy import Row, func, insert, select, text
from sqlalchemy.ext.asyncio import AsyncEngine

from db import replicas
from db.accounts import activate
from db.claims import claim
from db.replicas import ReplicaState
from db.tables import batches, files, jobs, segments, tenants
from lanes.job import ClaimedJob
from lanes.lane import Lane
from lanes.policy import DEFAULT, Policy

MODEL = "toy"


@dataclass
class World:
    database: AsyncEngine
    policy: Policy = DEFAULT

    async def tenant(self, name: str = "acme", weight: float = 1.0) -> UUID:
        return await self.scalar(insert(tenants).values(name=name, weight=weight).returning(tenants.c.id))

    async def batch(
        self, tenant_id: UUID, lines: int, window: timedelta = timedelta(hours=1), **job: object
    ) -> UUID:
        """A batch in progress with that many queued jobs of 100 input and 50 output tokens."""
        file_id = await self.scalar(
            insert(files)
            .values(tenant_id=tenant_id, purpose="batch", filename="a.jsonl", bytes=1, object_key=uuid4().hex)
            .returning(files.c.id)
        )
        expires_at = func.clock_timestamp() + window
        batch_id: UUID = await self.scalar(
            insert(batches)
            .values(
                tenant_id=tenant_id, endpoint="/v1/chat/completions", input_file_id=file_id,
                completion_window="1h", expires_at=expires_at, status="in_progress", total=lines,
            )
            .returning(batches.c.id)
        )  # fmt: skip
        segment_id = await self.scalar(
            insert(segments)
            .values(tenant_id=tenant_id, batch_id=batch_id, kind="input", object_key=uuid4().hex, bytes=1)
            .returning(segments.c.id)
        )
        async with self.database.begin() as connection:
            await activate(connection, MODEL, Lane.BULK, tenant_id, batch_id)
            row = {
                "tenant_id": tenant_id, "flow_id": batch_id, "batch_id": batch_id, "segment_id": segment_id,
                "deadline": expires_at, "bucket": 1, "byte_offset": 0, "byte_length": 10, "input_tokens": 100,
                "output_tokens": 50, "lane": 2, "model": MODEL, "endpoint": "/v1/chat/completions",
            } | job  # fmt: skip
            for line in range(1, lines + 1):
                await connection.execute(insert(jobs).values(row | {"ord": line, "line": line}))
        return batch_id

    async def worker(self, state: ReplicaState = ReplicaState.READY) -> UUID:
        boot_id = uuid4()
        await replicas.register(
            self.database, boot_id=boot_id, deployment=MODEL, host="here", pid=1, seats=8, state=state,
            policy=self.policy,
        )  # fmt: skip
        return boot_id

    async def claim(self, boot_id: UUID, seats: int) -> list[ClaimedJob]:
        return await claim(
            self.database, model=MODEL, lane=Lane.BULK, boot_id=boot_id, free_seats=seats, policy=self.policy
        )

    async def run_out(self, boot_id: UUID) -> None:
        """Let a worker's lease end, as if it had been silent for too long."""
        await self.execute(
            "UPDATE replicas SET lease_until = clock_timestamp() - interval '1 s' WHERE boot_id = :id",
            id=boot_id,
        )

    async def scalar(self, query: object) -> UUID:
        async with self.database.begin() as connection:
            return (await connection.execute(query)).scalar_one()  # type: ignore[call-overload,no-any-return]  # takes any statement

    async def execute(self, query: str, **values: object) -> None:
        async with self.database.begin() as connection:
            await connection.execute(text(query), values)

    async def rows(self, query: str, **values: object) -> Sequence[Row[tuple[object, ...]]]:
        async with self.database.begin() as connection:
            return (await connection.execute(text(query), values)).all()

    async def states(self) -> dict[str, int]:
        """How many jobs are in each state, live and ended."""
        rows = await self.rows(
            "SELECT state, count(*) AS jobs FROM"
            " (SELECT state FROM jobs UNION ALL SELECT state FROM jobs_done) AS all_jobs GROUP BY state"
        )
        return {row.state: row.jobs for row in rows}

    async def live(self) -> Sequence[Row[tuple[object, ...]]]:
        async with self.database.begin() as connection:
            return (await connection.execute(select(jobs).order_by(jobs.c.line))).all()
