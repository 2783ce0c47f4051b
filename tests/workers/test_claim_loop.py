"""The claim loop: one for all lanes of a worker, so that they share its seats by rule and not by race."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import replace

from db.accounts import activate
from db.objects import Objects
from lanes.lane import Lane
from lanes.policy import DEFAULT, Policy
from lanes.usage import Usage
from tests.workers.conftest import Bench, ScriptedEngine, echo, until, write_bodies
from tests.world import MODEL, World
from workers.engines.port import EngineRequest, Reply
from workers.gpu.demand import Demand

Build = Callable[..., Awaitable[Bench]]


async def two_lanes(world: World, objects: Objects, standard: int, bulk: int) -> None:
    """Jobs of one tenant in P1 and P2."""
    tenant = await world.tenant()
    for lane, lines in ((Lane.STANDARD, standard), (Lane.BULK, bulk)):
        flow = await world.batch(tenant, lines, lane=int(lane))
        async with world.database.begin() as connection:
            await activate(connection, MODEL, lane, tenant, flow)
    await write_bodies(world, objects)


async def lanes_in_order(
    world: World, objects: Objects, policy: Policy = DEFAULT, seats: int = 2
) -> list[Lane]:
    """The lanes of all jobs in the order in which they reached the engine."""
    order: list[Lane] = []

    async def noted(request: EngineRequest) -> Reply:
        order.append(request.lane)
        return await echo(request)

    jobs = len(await world.live())
    engine = ScriptedEngine(noted, seats=seats)
    bench = Bench(world, objects, engine, await world.worker(), policy)
    async with bench.running():
        await until(world, succeeded=jobs)
    return order


async def test_standard_goes_first_and_bulk_keeps_its_least_share(world: World, objects: Objects) -> None:
    await two_lanes(world, objects, 60, 60)

    order = await lanes_in_order(world, objects, replace(DEFAULT, p2_min_share=0.2))

    first = Counter(order[:50])
    assert first[Lane.STANDARD] > first[Lane.BULK]
    assert abs(first[Lane.BULK] - 10) <= 3, "a fifth of 50"


async def test_without_a_least_share_bulk_waits_for_all_of_standard(world: World, objects: Objects) -> None:
    await two_lanes(world, objects, 30, 30)

    order = await lanes_in_order(world, objects, replace(DEFAULT, p2_min_share=0.0))

    assert order == [Lane.STANDARD] * 30 + [Lane.BULK] * 30


async def test_a_lane_that_waited_too_long_gets_a_seat_whatever_the_order_says(
    world: World, objects: Objects
) -> None:
    await two_lanes(world, objects, 120, 3)

    order = await lanes_in_order(world, objects, replace(DEFAULT, p2_min_share=0.0, age_seconds=0.0))

    assert Lane.BULK in order[:20]


async def test_one_lane_alone_gets_every_seat(world: World, objects: Objects) -> None:
    await two_lanes(world, objects, 0, 40)
    assert await lanes_in_order(world, objects, seats=8) == [Lane.BULK] * 40


def test_bulk_brings_no_credit_from_the_time_in_which_it_was_alone() -> None:
    demand = Demand((Lane.STANDARD, Lane.BULK), 0.0, DEFAULT)
    demand.emptied(Lane.STANDARD, 1.0)
    demand.charge(Lane.BULK, [100.0] * 9, 2.0)
    demand.look_again()
    assert {lane.lane: lane.served.cost for lane in demand.lanes(3.0)} == {Lane.STANDARD: 0, Lane.BULK: 0}
    demand.charge(Lane.STANDARD, [100.0, 300.0], 4.0)
    demand.settle({Lane.STANDARD: -150.0, Lane.BULK: -50.0})
    assert [lane.served.cost for lane in demand.lanes(4.0)] == [250.0, 0.0]


def test_a_lane_ages_from_its_last_seat_and_only_while_it_may_have_work() -> None:
    demand = Demand((Lane.STANDARD, Lane.BULK), 0.0, DEFAULT)
    demand.charge(Lane.STANDARD, [1.0], 5.0)
    assert [(lane.lane, lane.unserved_seconds) for lane in demand.lanes(9.0)] == [
        (Lane.STANDARD, 4.0), (Lane.BULK, 9.0),
    ]  # fmt: skip
    demand.emptied(Lane.BULK, 10.0)
    assert [lane.lane for lane in demand.lanes(11.0)] == [Lane.STANDARD]
    demand.look_again()
    assert [lane.unserved_seconds for lane in demand.lanes(12.0)] == [7.0, 2.0]


async def test_a_drain_gives_back_at_once_what_has_not_begun(
    world: World, objects: Objects, build: Build
) -> None:
    """The engine has 4 seats and 2 jobs wait in it for one: they need not wait for the others to end."""
    await world.batch(await world.tenant(), 6)
    await write_bodies(world, objects)
    release = asyncio.Event()
    inside = asyncio.Barrier(7)

    async def waits(request: EngineRequest) -> Reply:
        await inside.wait()
        await release.wait()
        return await echo(request)

    bench = await build(waits, 4)
    async with bench.running():
        await asyncio.wait_for(inside.wait(), 15)
        await world.execute("UPDATE replicas SET state = 'draining'")
        bench.runner.give_back_unstarted()
        await until(world, queued=2, running=4)
        release.set()
        await until(world, queued=2, succeeded=4)
    assert {(row.line, row.attempts) for row in await world.live()} == {(5, 0), (6, 0)}


async def test_beyond_the_budget_a_retry_waits_for_longer_and_is_not_dropped(
    world: World, objects: Objects, build: Build
) -> None:
    policy = replace(DEFAULT, retry_budget_burst=2.0)
    await world.batch(await world.tenant(), 6)
    await write_bodies(world, objects)

    async def fails(request: EngineRequest) -> Reply:
        return Reply(503, b"{}", Usage())

    bench = Bench(world, objects, ScriptedEngine(fails), await world.worker(), policy)
    async with bench.running(), asyncio.timeout(15):
        while not all(row.not_before is not None for row in await world.live()):  # noqa: ASYNC110  # the database has no event
            await asyncio.sleep(0.02)
    rows = await world.rows(
        "SELECT attempts, extract(epoch FROM not_before - clock_timestamp()) > 10 AS long FROM jobs"
    )
    assert Counter(row.long for row in rows) == {False: 2, True: 4}
    assert {row.attempts for row in rows} == {1}
