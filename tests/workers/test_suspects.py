"""An engine dies under many jobs: they run in halves until the culprit is alone, and only that one fails."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable
from uuid import UUID

from db import reports
from db.objects import Objects
from lanes.job import ClaimedJob
from lanes.report import GivenBack
from tests.workers.conftest import Bench, echo, until, write_bodies
from tests.world import World
from workers.engines.port import EngineDead, EngineRequest, Reply
from workers.engines.simulated import DEATH_MARK, SimulatedEngine, SimulatedSettings
from workers.engines.simulated_latency import INSTANT, LatencyModel
from workers.gpu.held import Verdict

Build = Callable[..., Awaitable[Bench]]
SEATS = 128


async def engine_that_can_die(seats: int = SEATS) -> SimulatedEngine:
    latency = LatencyModel(speed=INSTANT)
    engine = SimulatedEngine(SimulatedSettings("toy", seats=seats, latency=latency, drill=True))
    await engine.start()
    return engine


async def deaths_until_done(world: World, objects: Objects) -> int:
    """Run workers one after the other, each until its engine has died or nothing is left to do."""
    deaths = 0
    while True:
        bench = Bench(world, objects, await engine_that_can_die(), await world.worker())
        dead = asyncio.create_task(bench.runner.engine_dead.wait())
        async with bench.running():
            done = asyncio.create_task(_until_no_job_is_live(world))
            async with asyncio.timeout(60):
                await asyncio.wait({dead, done}, return_when=asyncio.FIRST_COMPLETED)
                if dead.done():  # as the replica does: it claims no more, reports, and leaves
                    await world.execute(
                        "UPDATE replicas SET state = 'draining' WHERE boot_id = :id", id=bench.boot_id
                    )
                    await bench.held.until_empty()
        died = dead.done()
        for task in (dead, done):
            task.cancel()
        await asyncio.gather(dead, done, return_exceptions=True)
        if not died:
            return deaths
        deaths += 1


async def _until_no_job_is_live(world: World) -> None:
    while await world.live():  # noqa: ASYNC110  # the database has no event to wait for
        await asyncio.sleep(0.02)


async def write_prompts(world: World, objects: Objects, deadly: set[int]) -> None:
    """Bodies of chats; those of the given lines kill a simulated engine."""
    for segment in await world.rows("SELECT id, object_key FROM segments WHERE kind = 'input'"):
        data = bytearray()
        for job in await world.rows("SELECT id, line FROM jobs WHERE segment_id = :id", id=segment.id):
            content = DEATH_MARK if job.line in deadly else f"question {job.line}"
            body = json.dumps({"messages": [{"role": "user", "content": content}], "max_tokens": 4}).encode()
            await world.execute(
                "UPDATE jobs SET byte_offset = :at, byte_length = :size WHERE id = :id",
                at=len(data), size=len(body), id=job.id,
            )  # fmt: skip
            data += body
        await objects.put(segment.object_key, bytes(data))


async def test_127_good_jobs_and_1_that_kills_the_engine(world: World, objects: Objects) -> None:
    await world.batch(await world.tenant(), 128)
    await write_prompts(world, objects, {77})

    deaths = await deaths_until_done(world, objects)

    assert await world.states() == {"succeeded": 127, "failed": 1}
    [failed] = await world.rows("SELECT line, error_code, attempts FROM jobs_done WHERE state = 'failed'")
    assert (failed.line, failed.error_code) == (77, "engine_killer")
    spent = await world.rows("SELECT DISTINCT attempts FROM jobs_done WHERE state = 'succeeded'")
    assert [row.attempts for row in spent] == [0], "being a suspect is no attempt"
    assert deaths <= 8, "128 jobs are halved seven times"


async def test_two_culprits_are_both_found(world: World, objects: Objects) -> None:
    await world.batch(await world.tenant(), 20)
    await write_prompts(world, objects, {3, 16})

    await deaths_until_done(world, objects)

    assert await world.states() == {"succeeded": 18, "failed": 2}
    failed = await world.rows("SELECT line FROM jobs_done WHERE error_code = 'engine_killer' ORDER BY line")
    assert [row.line for row in failed] == [3, 16]


async def test_who_was_alone_by_chance_gets_a_second_engine(
    world: World, objects: Objects, build: Build
) -> None:
    """An engine may die of something else: one death, under a job that nobody suspected, proves nothing."""
    await world.batch(await world.tenant(), 1)
    await write_bodies(world, objects)

    async def dies(request: EngineRequest) -> Reply:
        raise EngineDead

    bench = await build(dies)
    async with bench.running():
        await asyncio.wait_for(bench.runner.engine_dead.wait(), 15)
        await world.execute("UPDATE replicas SET state = 'draining'")
        await until(world, queued=1)
    [job] = await world.live()
    assert (job.suspects is not None, job.attempts) == (True, 0)

    bench = await build(echo)
    async with bench.running():
        await until(world, succeeded=1)


async def test_suspects_run_alone_and_before_anything_else(
    world: World, objects: Objects, build: Build
) -> None:
    await world.batch(await world.tenant("a"), 4)
    jobs = await world.claim(await world.worker(), 4)
    await give_back_as_suspects(world, jobs, UUID(int=1))
    await world.batch(await world.tenant("b"), 6)
    await write_bodies(world, objects)
    present: list[set[str]] = []
    running: Counter[str] = Counter()

    async def watched(request: EngineRequest) -> Reply:
        job_id = UUID(request.request_id.removeprefix("req_").split("-")[0])
        kind = "suspect" if any(job.lease.job_id == job_id for job in jobs) else "other"
        running[kind] += 1
        present.append({name for name, count in running.items() if count})
        for _ in range(3):
            await asyncio.sleep(0)
        running[kind] -= 1
        return await echo(request)

    bench = await build(watched)
    async with bench.running():
        await until(world, succeeded=10)

    assert present[:4] == [{"suspect"}] * 4
    assert present[4:] == [{"other"}] * 6


async def test_a_busy_worker_lets_its_engine_run_empty_for_suspects_that_waited(
    world: World, objects: Objects, build: Build
) -> None:
    await world.batch(await world.tenant("a"), 2)
    jobs = await world.claim(await world.worker(), 2)
    await world.batch(await world.tenant("b"), 400)
    await write_bodies(world, objects)
    order: list[str] = []
    started = asyncio.Event()

    async def noted(request: EngineRequest) -> Reply:
        job_id = UUID(request.request_id.removeprefix("req_").split("-")[0])
        order.append("suspect" if any(job.lease.job_id == job_id for job in jobs) else "other")
        started.set()
        await asyncio.sleep(0.01)
        return await echo(request)

    bench = await build(noted)
    async with bench.running():
        await asyncio.wait_for(started.wait(), 15)
        await give_back_as_suspects(world, jobs, UUID(int=1))
        await world.execute(
            "UPDATE jobs SET suspected_at = clock_timestamp() - interval '1 h' WHERE suspects IS NOT NULL"
        )
        await until(world, succeeded=402)

    assert order.index("suspect") < order.count("other") - 8, "they came last"


async def give_back_as_suspects(world: World, jobs: list[ClaimedJob], group: UUID) -> None:
    backs = [GivenBack(job.lease, job.tenant_id, 0, blamed=False, suspects=group) for job in jobs]
    await reports.give_back(world.database, backs, world.policy)


async def test_a_dead_engine_is_noticed_by_the_replica_first(
    world: World, objects: Objects, build: Build
) -> None:
    """Before its requests fail: what is stopped then is suspected all the same."""
    await world.batch(await world.tenant(), 4)
    await write_bodies(world, objects)
    together = asyncio.Barrier(5)

    async def hangs(request: EngineRequest) -> Reply:
        await together.wait()
        await asyncio.Event().wait()
        raise AssertionError("unreachable")

    bench = await build(hangs)
    async with bench.running():
        await asyncio.wait_for(together.wait(), 15)
        await world.execute("UPDATE replicas SET state = 'draining'")
        bench.runner.engine_died()
        bench.runner.give_back_unstarted()
        bench.held.stop_all(Verdict.DRAINING)
        await until(world, queued=4)
    groups = Counter(row.suspects for row in await world.live())
    assert sorted(groups.values()) == [2, 2]
    assert None not in groups
