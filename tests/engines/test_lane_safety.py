"""Both ways of keeping lanes, on the real engine, with too few seats and blocks and random aborts."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from random import Random

import pytest
import pytest_asyncio

from lanes.lane import Lane
from lanes.lane_stats import LaneStats
from lanes.policy import DEFAULT
from tests.engines.subjects import vllm_settings
from tests.eventually import eventually
from workers.engines.port import EngineRequest
from workers.engines.vllm.engine import VllmEngine
from workers.engines.vllm.lane_control import LaneKind

pytestmark = [pytest.mark.vllm, pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(900)]

SEATS, P2_CLIENTS, P0_BURST = 8, 20, 12
BLOCK = 32
KV_BLOCK_BYTES = BLOCK * 2 * 30 * 3 * 64 * 2  # keys and values, layers, heads, head size, bfloat16
_numbers = itertools.count()


@pytest_asyncio.fixture(
    scope="module", loop_scope="module", params=["subclass", pytest.param("cap", marks=pytest.mark.slow)]
)
async def engine(request: pytest.FixtureRequest) -> AsyncIterator[VllmEngine]:
    lanes: LaneKind = request.param
    settings = replace(
        vllm_settings(),
        max_num_seqs=SEATS,
        max_model_len=512,
        block_size=BLOCK,
        kv_cache_memory_bytes=40 * KV_BLOCK_BYTES,  # eight requests of 300 tokens need 75 blocks
        lanes=lanes,
    )
    made = VllmEngine(settings)
    await made.start()
    assert made.lanes == lanes
    yield made
    await made.close()


def ask(random: Random, lane: Lane) -> EngineRequest:
    number = next(_numbers)
    prompt, output = (
        (random.randint(5, 150), 16) if lane == Lane.INTERACTIVE else (random.randint(5, 250), 40)
    )
    body = {"prompt": f"{number} " + "word " * prompt, "max_tokens": output, "ignore_eos": True}
    return EngineRequest(f"{lane.label}-{number}", "/v1/completions", body, lane)


async def client(engine: VllmEngine, random: Random, stop: asyncio.Event, ended: list[int]) -> None:
    """Bulk without end; an aborted request is followed by the next."""
    while not stop.is_set():
        running = asyncio.ensure_future(engine.run(ask(random, Lane.BULK)))
        try:
            ended.append((await running).status)
        except asyncio.CancelledError:
            running.cancel()
            await asyncio.wait({running})
            asyncio.current_task().uncancel()  # type: ignore[union-attr]  # it is one that was just cancelled


async def burst(engine: VllmEngine, random: Random, clients: list[asyncio.Task[None]]) -> None:
    """P0 requests at once; when the first has ended, some of them and some bulk are aborted."""
    tasks = [asyncio.ensure_future(engine.run(ask(random, Lane.INTERACTIVE))) for _ in range(P0_BURST)]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in random.sample(tasks, 2) + random.sample(clients, 3):
        task.cancel()
    ends = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(end, asyncio.CancelledError) or end.status == 200 for end in ends)  # type: ignore[union-attr]  # replies have it


def idle(stats: LaneStats) -> bool:
    return all(
        (lane.running, lane.withheld, lane.waiting, lane.kv_blocks) == (0,) * 4 for lane in stats.lanes
    )


async def storm(engine: VllmEngine, seed: int, seconds: float) -> None:
    random, stop = Random(seed), asyncio.Event()
    ended: list[int] = []
    clients = [asyncio.create_task(client(engine, random, stop, ended)) for _ in range(P2_CLIENTS)]
    version = DEFAULT.step.version
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        await burst(engine, random, clients)
        version += 1
        engine.set_knobs(
            replace(DEFAULT.step, version=version, max_step_ms=random.choice([20.0, 100.0, 1000.0]))
        )
    stop.set()
    await asyncio.gather(*clients)
    await engine.check()
    assert set(ended) == {200}
    # Any step publishes the counters; this one comes after the last abort.
    reply = await engine.run(ask(random, Lane.BULK))
    assert reply.status == 200
    await asyncio.to_thread(eventually, lambda: idle(engine.lane_stats()), within_s=10)
    vllm = engine._alive()._client
    assert vllm.output_processor.get_num_unfinished_requests() == 0
    assert await vllm.reset_prefix_cache()  # vLLM refuses while any block is in use
    stats = engine.lane_stats()
    assert stats.knobs_version == version
    assert stats.free_blocks == stats.total_blocks
    assert stats.seats == SEATS
    if engine.lanes == "subclass":
        assert stats.of(Lane.BULK).preemptions > 0
        assert stats.of(Lane.BULK).withheld == 0
        assert stats.of(Lane.INTERACTIVE).steps > 0


async def test_nothing_dies_or_leaks_in_a_short_storm(engine: VllmEngine) -> None:
    await storm(engine, seed=1, seconds=4)


@pytest.mark.slow
async def test_nothing_dies_or_leaks_in_ten_minutes(engine: VllmEngine) -> None:
    await storm(engine, seed=2, seconds=600)
