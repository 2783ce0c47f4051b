"""The vLLM engine's processes die, or are not wanted any more while they still load."""

from __future__ import annotations

import asyncio

import psutil
import pytest

from lanes.lane import Lane
from tests.engines.subjects import vllm
from tests.eventually import eventually
from workers.engines.port import EngineDead, EngineRequest
from workers.engines.vllm.processes import loading_engine_cores

pytestmark = [pytest.mark.vllm, pytest.mark.slow, pytest.mark.timeout(240)]


def engine_processes() -> list[psutil.Process]:
    return [child for child in psutil.Process().children(recursive=True) if "VLLM::" in child.name()]


def request(number: int, tokens: int) -> EngineRequest:
    body = {"prompt": "Once upon a time", "max_tokens": tokens, "ignore_eos": True}
    return EngineRequest(f"r{number}", "/v1/completions", body, Lane.BULK)


@pytest.mark.parametrize("victim", ["VLLM::EngineCore", "VLLM::Worker"])
async def test_death_of_a_process_ends_every_request(victim: str) -> None:
    engine = vllm()
    await engine.start()
    family = engine_processes()
    try:
        flying = [asyncio.create_task(engine.run(request(n, 1500))) for n in range(engine.seats - 1)]
        await engine.run(request(99, 1))
        # The kernel keeps only the first fifteen letters of a name.
        next(process for process in family if victim.startswith(process.name())).kill()
        async with asyncio.timeout(30):
            ends = await asyncio.gather(*flying, return_exceptions=True)
        assert [type(end) for end in ends] == [EngineDead] * len(flying)
        with pytest.raises(EngineDead):
            await engine.check()
        await asyncio.to_thread(eventually, lambda: not any(p.is_running() for p in family), within_s=10)
    finally:
        await engine.close()


async def test_closing_while_the_model_loads_ends_the_load() -> None:
    engine = vllm()
    starting = asyncio.create_task(engine.start())
    try:
        await asyncio.to_thread(eventually, loading_engine_cores, within_s=90)
    finally:
        async with asyncio.timeout(20):
            await engine.close()
    with pytest.raises(EngineDead):
        await starting
    assert engine_processes() == []
