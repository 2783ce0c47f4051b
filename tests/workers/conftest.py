"""A worker's inside without its process: claim loop, slice runner and completer over real PostgreSQL."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from uuid import UUID

import pytest

from db.objects import Objects
from lanes.lane import Lane
from lanes.policy import DEFAULT, Policy
from lanes.usage import Usage
from tests.world import MODEL, World
from workers.engines.port import Engine, EngineRequest, Reply
from workers.gpu.claim_loop import ClaimLoop
from workers.gpu.completer import Completer
from workers.gpu.held import Held
from workers.gpu.slices import SliceRunner

Answer = Callable[[EngineRequest], Awaitable[Reply]]


class ScriptedEngine:
    """An engine whose every answer the test writes; the port's rules are the test's to keep."""

    def __init__(self, answer: Answer, seats: int = 8) -> None:
        self._answer = answer
        self.seats = seats
        self.context_tokens = 4096

    async def run(self, request: EngineRequest) -> Reply:
        return await self._answer(request)

    async def start(self) -> None: ...
    async def check(self) -> None: ...
    async def close(self) -> None: ...


async def echo(request: EngineRequest) -> Reply:
    return Reply(200, json.dumps(request.body).encode(), Usage(input_tokens=1, output_tokens=1))


class Bench:
    """The parts of one worker, wired as `Replica` wires them."""

    def __init__(
        self, world: World, objects: Objects, engine: Engine, boot_id: UUID, policy: Policy = DEFAULT
    ) -> None:
        policy = replace(policy, poll_seconds=0.1, backoff_seconds=0.01)
        self.boot_id = boot_id
        self.held = Held()
        self.completer = Completer(world.database, objects, self.held, policy)
        self.runner = SliceRunner(engine, objects, self.held, self.completer, policy)
        self.loop = ClaimLoop(
            world.database, self.runner, deployment=MODEL, lanes=(Lane.STANDARD, Lane.BULK),
            seats=engine.seats, boot_id=lambda: boot_id, policy=policy,
        )  # fmt: skip

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        tasks = [asyncio.create_task(self.completer.run()), asyncio.create_task(self.loop.run())]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


@pytest.fixture
def build(world: World, objects: Objects) -> Callable[[Answer], Awaitable[Bench]]:
    async def make(answer: Answer, seats: int = 8) -> Bench:
        return Bench(world, objects, ScriptedEngine(answer, seats), await world.worker())

    return make


async def write_bodies(world: World, objects: Objects) -> None:
    """Store the bodies that the world's jobs point to, each naming its line."""
    for segment in await world.rows("SELECT id, object_key FROM segments WHERE kind = 'input'"):
        data = bytearray()
        for job in await world.rows("SELECT id, line FROM jobs WHERE segment_id = :id", id=segment.id):
            body = json.dumps({"line": job.line}).encode()
            await world.execute(
                "UPDATE jobs SET byte_offset = :at, byte_length = :size WHERE id = :id",
                at=len(data), size=len(body), id=job.id,
            )  # fmt: skip
            data += body
        await objects.put(segment.object_key, bytes(data))


async def until(world: World, **states: int) -> None:
    """Wait until the jobs are in these states."""
    async with asyncio.timeout(15):
        while await world.states() != states:  # noqa: ASYNC110  # the database has no event to wait for
            await asyncio.sleep(0.02)
