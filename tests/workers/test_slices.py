"""Running jobs: every ending of an attempt leads where the rules say."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable

import pytest

from db.objects import Objects, StoreUnreachable
from lanes.usage import Usage
from tests.workers.conftest import Answer, Bench, echo, until, write_bodies
from tests.world import World
from workers.engines.port import EngineDead, EngineRequest, Reply
from workers.gpu.held import Verdict

Build = Callable[[Answer], Awaitable[Bench]]


async def test_every_job_gets_its_own_answer_and_the_engine_stays_within_its_seats(
    world: World, objects: Objects, build: Build
) -> None:
    await world.batch(await world.tenant(), 60)
    await write_bodies(world, objects)
    most = running = 0

    async def counted(request: EngineRequest) -> Reply:
        nonlocal most, running
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        return await echo(request)

    bench = await build(counted)
    async with bench.running():
        await until(world, succeeded=60)

    rows = await world.rows("SELECT d.line, o.body FROM jobs_done d JOIN outcomes o ON o.job_id = d.id")
    assert all(json.loads(row.body) == {"line": row.line} for row in rows)
    assert most <= 8 + 4, "seats and half as many jobs ahead"
    assert len(bench.held) == 0


async def test_an_engine_error_is_tried_again_and_then_ends_the_job(
    world: World, objects: Objects, build: Build
) -> None:
    await world.batch(await world.tenant(), 2)
    await write_bodies(world, objects)
    tries: list[int] = []

    async def fails_on_one(request: EngineRequest) -> Reply:
        tries.append(request.body["line"])
        if request.body["line"] == 1:
            raise RuntimeError("boom")
        if tries.count(2) == 1:
            return Reply(503, b"{}", Usage())
        return await echo(request)

    bench = await build(fails_on_one)
    async with bench.running(), asyncio.timeout(15):
        while await world.states() != {"succeeded": 1, "failed": 1}:
            # what the sweep does once the wait is over
            await world.execute("UPDATE jobs SET not_before = NULL")
            await asyncio.sleep(0.02)

    assert (tries.count(1), tries.count(2)) == (3, 2)
    [failed] = await world.rows("SELECT * FROM jobs_done WHERE state = 'failed'")
    assert (failed.error_code, failed.attempts) == ("engine_error", 3)


async def test_a_refusal_is_an_answer_and_is_not_tried_again(
    world: World, objects: Objects, build: Build
) -> None:
    await world.batch(await world.tenant(), 1)
    await write_bodies(world, objects)
    tries = 0

    async def refuses(request: EngineRequest) -> Reply:
        nonlocal tries
        tries += 1
        return Reply(400, b'{"error": {"message": "too long"}}', Usage())

    bench = await build(refuses)
    async with bench.running():
        await until(world, failed=1)

    assert tries == 1
    [row] = await world.rows(
        "SELECT status_code, error_code, body FROM jobs_done JOIN outcomes ON id = job_id"
    )
    assert (row.status_code, row.error_code) == (400, None)
    assert b"too long" in row.body


async def test_a_body_that_cannot_be_read_ends_in_a_clear_failure(world: World, build: Build) -> None:
    await world.batch(await world.tenant(), 1, attempts=2)  # no body was ever stored

    bench = await build(echo)
    async with bench.running():
        await until(world, failed=1)

    [row] = await world.rows("SELECT error_code, status_code FROM jobs_done")
    assert (row.error_code, row.status_code) == ("body_lost", None)


async def test_a_dead_engine_gives_all_jobs_back_without_blame(
    world: World, objects: Objects, build: Build
) -> None:
    await world.batch(await world.tenant(), 4)
    await write_bodies(world, objects)
    together = asyncio.Barrier(4)

    async def dies(request: EngineRequest) -> Reply:
        await together.wait()
        raise EngineDead

    bench = await build(dies)
    async with bench.running():
        await asyncio.wait_for(bench.runner.engine_dead.wait(), 15)
        await world.execute("UPDATE replicas SET state = 'draining'")  # no claim comes in between
        await until(world, queued=4)

    jobs = await world.live()
    assert [(row.attempts, row.fence) for row in jobs] == [(0, 2)] * 4
    assert sorted(Counter(row.suspects for row in jobs).values()) == [2, 2], "in two groups"


async def test_what_a_stop_a_lost_lease_and_a_drain_do_to_a_running_job(
    world: World, objects: Objects, build: Build
) -> None:
    await world.batch(await world.tenant(), 3)
    await write_bodies(world, objects)
    all_running = asyncio.Barrier(4)
    aborted: list[int] = []

    async def hangs(request: EngineRequest) -> Reply:
        await all_running.wait()
        try:
            await asyncio.Event().wait()
        finally:
            aborted.append(request.body["line"])
        raise AssertionError("unreachable")

    bench = await build(hangs)
    async with bench.running():
        await asyncio.wait_for(all_running.wait(), 15)
        await world.execute("UPDATE replicas SET state = 'draining'")
        by_line = {row.line: row for row in await world.live()}
        leases = {lease.job_id: lease for lease in bench.held.leases()}
        await world.execute("UPDATE jobs SET state = 'cancelling', ending = 'expired' WHERE line = 1")
        verdicts = (Verdict.STOPPING, Verdict.LOST, Verdict.DRAINING)
        for line, verdict in enumerate(verdicts, start=1):
            bench.held.stop(leases[by_line[line].id], verdict)
        await asyncio.wait_for(bench.held.until_empty(), 15)

    assert sorted(aborted) == [1, 2, 3], "each generation was stopped in the engine"
    # expired as asked; the lost one untouched; the drained one queued again
    assert await world.states() == {"expired": 1, "running": 1, "queued": 1}
    assert {row.line: row.state for row in await world.live()} == {2: "running", 3: "queued"}


async def test_a_store_that_does_not_answer_is_nobodys_fault(
    world: World, objects: Objects, build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.batch(await world.tenant(), 1)
    await write_bodies(world, objects)

    async def away(key: str, ranges: object) -> list[bytes]:
        raise StoreUnreachable(key)

    bench = await build(echo)
    async with bench.running(), asyncio.timeout(15):
        with monkeypatch.context() as patch:
            patch.setattr(objects, "read_ranges", away)
            while (await world.live())[0].not_before is None:  # noqa: ASYNC110  # the database has no event
                await asyncio.sleep(0.02)
        assert (await world.live())[0].attempts == 0
        await world.execute("UPDATE jobs SET not_before = NULL")
        await until(world, succeeded=1)
