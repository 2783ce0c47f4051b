"""A desk to hand files in at: real PostgreSQL, real objects, the real doorbell."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import Row, insert, text
from sqlalchemy.ext.asyncio import AsyncEngine

from db.embedded import EmbeddedServers
from db.objects import Objects
from db.redis.broker import celery_app
from db.redis.doorbell import Doorbell
from db.tables import deployments, files, tenants
from lanes.policy import DEFAULT
from workers.maintenance.ingest import Ingest
from workers.maintenance.services import Parts

CHAT = "/v1/chat/completions"


def request(custom_id: Any = "a", content: str = "hi", **changes: Any) -> dict[str, Any]:
    """A good line as a value; what `changes` sets to None is left out."""
    line = {
        "custom_id": custom_id,
        "method": "POST",
        "url": CHAT,
        "body": {"model": "toy", "messages": [{"role": "user", "content": content}]},
    } | changes
    return {name: value for name, value in line.items() if value is not None}


def body(**changes: Any) -> dict[str, Any]:
    """A good line's body with changes."""
    return {"model": "toy", "messages": [{"role": "user", "content": "SECRET"}]} | changes


def jsonl(count: int, first: int = 1) -> bytes:
    """That many good lines; line n has the custom_id and the prompt n."""
    lines = (json.dumps(request(f"{n}", f"prompt {n}")) for n in range(first, first + count))
    return "".join(f"{line}\n" for line in lines).encode()


@dataclass
class Desk:
    parts: Parts
    tenant_id: UUID

    @property
    def ingest(self) -> Ingest:
        return Ingest(self.parts)

    def with_policy(self, **numbers: Any) -> Desk:
        return replace(self, parts=replace(self.parts, policy=replace(self.parts.policy, **numbers)))

    def with_objects(self, objects: Objects) -> Desk:
        return replace(self, parts=replace(self.parts, objects=objects))

    async def batch(self, data: bytes, on_invalid_line: str = "reject", endpoint: str = CHAT) -> UUID:
        """A batch that waits for validation, made from a file with these bytes."""
        key = f"uploads/{uuid4().hex}"
        await self.parts.objects.put(key, data)
        return await self.batch_of(key, on_invalid_line, endpoint)

    async def batch_of(self, key: str, on_invalid_line: str = "reject", endpoint: str = CHAT) -> UUID:
        async with self.parts.database.begin() as connection:
            made = await connection.execute(
                insert(files)
                .values(
                    tenant_id=self.tenant_id, purpose="batch", filename="a.jsonl", bytes=1, object_key=key
                )
                .returning(files.c.id)
            )
            batch = await connection.execute(
                text(
                    "INSERT INTO batches (tenant_id, endpoint, input_file_id, completion_window,"
                    " on_invalid_line, created_at, expires_at) VALUES (:tenant, :endpoint, :file, '1h', :on,"
                    " statement_timestamp(), statement_timestamp() + interval '1 hour') RETURNING id"
                ),
                {
                    "tenant": self.tenant_id, "endpoint": endpoint, "file": made.scalar_one(),
                    "on": on_invalid_line,
                },
            )  # fmt: skip
            batch_id: UUID = batch.scalar_one()
        return batch_id

    async def rows(self, query: str, **values: Any) -> Sequence[Row[Any]]:
        async with self.parts.database.begin() as connection:
            return (await connection.execute(text(query), values)).all()

    async def execute(self, query: str, **values: Any) -> None:
        async with self.parts.database.begin() as connection:
            await connection.execute(text(query), values)

    async def state(self, batch_id: UUID) -> Row[Any]:
        [row] = await self.rows("SELECT * FROM batches WHERE id = :id", id=batch_id)
        return row

    async def run_out(self) -> None:
        """Let every lease on a validation end, as after a silence that was too long."""
        await self.execute("UPDATE batches SET lease_until = clock_timestamp() - interval '1 s'")

    async def queued(self, batch_id: UUID) -> dict[int, tuple[str, str]]:
        """Line: (custom_id, prompt read back from the segment), of every job of the batch."""
        rows = await self.rows(
            "SELECT line, custom_id, object_key, byte_offset, byte_length FROM jobs"
            " JOIN segments ON segments.id = segment_id WHERE jobs.batch_id = :id ORDER BY line",
            id=batch_id,
        )
        found = {}
        for key in {row.object_key for row in rows}:
            mine = [row for row in rows if row.object_key == key]
            bodies = await self.parts.objects.read_ranges(
                key, [(row.byte_offset, row.byte_length) for row in mine]
            )
            for row, data in zip(mine, bodies, strict=True):
                found[row.line] = (row.custom_id, json.loads(data)["messages"][0]["content"])
        assert len(found) == len(rows)
        return found

    async def read(self, key: str) -> bytes:
        return b"".join([chunk async for chunk in self.parts.objects.stream(key)])


@pytest.fixture
async def desk(database: AsyncEngine, objects: Objects, servers: EmbeddedServers) -> Desk:
    async with database.begin() as connection:
        made = await connection.execute(insert(tenants).values(name="acme", weight=4).returning(tenants.c.id))
        for name in ("toy", "other/model"):
            await connection.execute(
                insert(deployments).values(name=name, engine="simulated", context_tokens=4096)
            )
    doorbell = Doorbell(celery_app(servers.redis_url, "test"))
    return Desk(Parts(database, objects, doorbell, DEFAULT), made.scalar_one())
