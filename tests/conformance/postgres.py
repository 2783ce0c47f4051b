"""The queue in PostgreSQL, moved by nothing but the functions that the product itself calls.

Only what the product has no word for is written here in SQL: making a batch without a file,
letting time pass (by moving every time in the rows back), and looking at everything at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from uuid import UUID

from celery import Celery
from sqlalchemy import Row, insert, text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from db import replicas, reports, sweeps
from db.accounts import activate
from db.batches import request_cancel
from db.claims import claim, claim_suspects
from db.objects import Objects
from db.redis.doorbell import Doorbell
from db.replicas import ReplicaState
from db.tables import batches, files, jobs, segments, tenants
from lanes.failure import Failure
from lanes.job import Lease
from lanes.lane import Lane
from lanes.policy import Policy
from lanes.report import Finished, GivenBack, stopped
from lanes.usage import Usage
from tests.conformance import postgres_view
from tests.conformance.port import POLICY, UNIT, Beat, Hold, JobName, Line, Sweep, Used, View
from tests.world import MODEL
from workers.maintenance.finalise import Finalise
from workers.maintenance.services import Parts

# Every time that decides something; each is moved back to let time pass.
_TIMES = {
    "jobs": ("deadline", "not_before", "created_at", "claimed_at", "suspected_at"),
    "jobs_done": ("finished_at",),
    "replicas": ("lease_until",),
    "batches": ("expires_at", "lease_until", "created_at"),
}
_MOVES = (
    f"{table} AS (UPDATE {table} SET "
    + ", ".join(f"{name} = {name} - make_interval(secs => :by)" for name in columns)
    + ")"
    for table, columns in _TIMES.items()
)
_PASS_TIME = f"WITH {', '.join(_MOVES)} SELECT"


@dataclass(slots=True)
class PostgresQueue:
    """The port over a migrated database that holds one deployment."""

    database: AsyncEngine
    objects: Objects
    policy: Policy = POLICY
    names: dict[UUID, JobName] = field(default_factory=dict)
    ids: dict[JobName, UUID] = field(default_factory=dict)
    tenants: dict[UUID, UUID] = field(default_factory=dict)  # flow: its tenant

    async def tenant(self, tenant: UUID, weight: float) -> None:
        async with self.database.begin() as connection:
            await connection.execute(insert(tenants).values(id=tenant, name=str(tenant), weight=weight))

    async def worker(self, boot: UUID) -> None:
        await replicas.register(
            self.database, boot_id=boot, deployment=MODEL, host="here", pid=1, seats=8,
            state=ReplicaState.READY, policy=self.policy,
        )  # fmt: skip

    async def enqueue(self, tenant: UUID, flow: UUID, lines: Sequence[Line]) -> None:
        self.tenants[flow] = tenant
        async with self.database.begin() as connection:
            await self._insert_batch(connection, tenant, flow, lines)
            await activate(connection, MODEL, Lane.BULK, tenant, flow)
        rows = await self._rows("SELECT id, line FROM jobs WHERE flow_id = :flow", flow=flow)
        for row in rows:
            name = JobName(flow, row.line)
            self.names[row.id], self.ids[name] = name, row.id

    async def _insert_batch(
        self, connection: AsyncConnection, tenant: UUID, flow: UUID, lines: Sequence[Line]
    ) -> None:
        now = (await connection.execute(text("SELECT clock_timestamp() AS now"))).scalar_one()
        window = max(line.window for line in lines)
        await connection.execute(
            insert(files).values(
                id=flow, tenant_id=tenant, purpose="batch", filename="a.jsonl", bytes=1, object_key=flow.hex
            )
        )
        await connection.execute(
            insert(batches).values(
                id=flow, tenant_id=tenant, endpoint="/v1/chat/completions", input_file_id=flow,
                completion_window="1h", expires_at=now + _units(window), status="in_progress",
                total=len(lines),
            )
        )  # fmt: skip
        segment = await connection.execute(
            insert(segments)
            .values(tenant_id=tenant, batch_id=flow, kind="input", object_key=flow.hex, bytes=1)
            .returning(segments.c.id)
        )
        shared = {
            "tenant_id": tenant, "flow_id": flow, "batch_id": flow, "segment_id": segment.scalar_one(),
            "bucket": 1, "byte_offset": 0, "byte_length": 1, "lane": int(Lane.BULK), "model": MODEL,
            "endpoint": "/v1/chat/completions",
        }  # fmt: skip
        await connection.execute(
            insert(jobs),
            [
                shared
                | {
                    "line": number, "ord": number, "custom_id": str(number), "rank": line.rank,
                    "deadline": now + _units(line.window), "input_tokens": line.input_tokens,
                    "output_tokens": line.output_tokens,
                }
                for number, line in enumerate(lines, start=1)
            ],
        )  # fmt: skip

    # -- workers ----------------------------------------------------------------------------------

    async def claim(self, boot: UUID, seats: int) -> list[Hold]:
        claimed = await claim(
            self.database, model=MODEL, lane=Lane.BULK, boot_id=boot, free_seats=seats, policy=self.policy
        )
        return [self._hold(job.lease) for job in claimed]

    async def claim_suspects(self, boot: UUID) -> list[Hold]:
        claimed = await claim_suspects(self.database, model=MODEL, boot_id=boot, policy=self.policy)
        return [self._hold(job.lease) for job in claimed]

    async def beat(self, boot: UUID) -> Beat:
        answer = await replicas.beat(self.database, boot, ReplicaState.READY, 8, self.policy)
        held, stopping = (frozenset(map(self._hold, found)) for found in (answer.held, answer.stopping))
        return Beat(answer.alive, held, stopping)

    async def retire(self, boot: UUID) -> None:
        await replicas.retire(self.database, boot)

    async def succeed(self, hold: Hold, used: Used) -> bool:
        usage = Usage(input_tokens=used.input_tokens, output_tokens=used.output_tokens)
        lease, tenant = self._lease(hold)
        return await self._finish(Finished(lease, tenant, "succeeded", 200, None, b"{}", usage, 1, 2))

    async def fail(self, hold: Hold, reason: Failure) -> bool:
        lease, tenant = self._lease(hold)
        return await self._finish(Finished(lease, tenant, "failed", None, reason, None, Usage(), 1, 2))

    async def stopped(self, hold: Hold) -> bool:
        return await self._finish(stopped(*self._lease(hold)))

    async def _finish(self, report: Finished) -> bool:
        return bool(await reports.finish(self.database, self.objects, [report], self.policy))

    async def retry(self, hold: Hold, units: int) -> bool:
        return await self._give_back(GivenBack(*self._lease(hold), round(units * UNIT * 1000), blamed=True))

    async def release(self, hold: Hold) -> bool:
        return await self._give_back(GivenBack(*self._lease(hold), 0, blamed=False))

    async def suspect(self, hold: Hold, group: UUID) -> bool:
        return await self._give_back(GivenBack(*self._lease(hold), 0, blamed=False, suspects=group))

    async def _give_back(self, report: GivenBack) -> bool:
        return bool(await reports.give_back(self.database, [report], self.policy))

    # -- maintenance ------------------------------------------------------------------------------

    async def cancel(self, flow: UUID) -> bool:
        async with self.database.begin() as connection:
            return await request_cancel(connection, self.tenants[flow], flow)

    async def sweep(self, step: Sweep) -> int:
        if step is Sweep.RESCUE:
            async with self.database.begin() as connection:
                await replicas.mark_lost(connection)
        async with self.database.begin() as connection:
            match step:
                case Sweep.RESCUE:
                    return sum((await replicas.rescue(connection, sweeps.CHUNK, self.policy)).values())
                case Sweep.BURY:
                    return await sweeps.bury(connection, self.policy)
                case Sweep.EXPIRE:
                    return await sweeps.expire_queued(connection, self.policy)
                case Sweep.CANCEL:
                    return await sweeps.cancel_queued(connection, self.policy)
                case Sweep.STOP:
                    return await sweeps.stop_running(connection)
                case Sweep.WAKE:
                    return await sweeps.wake_delayed(connection)
                case Sweep.AGE:
                    return await sweeps.age_ranks(connection, self.policy)
                case Sweep.FOLD:
                    await sweeps.fold_progress(connection)
                    return 0  # how many rows there were to fold is nobody's rule

    async def close_ended(self) -> int:
        service = Finalise(Parts(self.database, self.objects, Doorbell(Celery()), self.policy))
        closed = 0
        while await service.run_once():
            closed += 1
        return closed

    async def pass_time(self, units: int) -> None:
        async with self.database.begin() as connection:
            await connection.execute(text(_PASS_TIME), {"by": units * UNIT})

    async def view(self) -> View:
        async with self.database.begin() as connection:
            return await postgres_view.read(connection, self.objects)

    # -- names ------------------------------------------------------------------------------------

    def _hold(self, lease: Lease) -> Hold:
        return Hold(self.names[lease.job_id], lease.fence)

    def _lease(self, hold: Hold) -> tuple[Lease, UUID]:
        return Lease(self.ids[hold.job], hold.fence), self.tenants[hold.job.flow]

    async def _rows(self, query: str, **values: object) -> Sequence[Row[Any]]:
        async with self.database.begin() as connection:
            return (await connection.execute(text(query), values)).all()


def _units(count: int) -> timedelta:
    return timedelta(seconds=count * UNIT)
