"""What only the simulated engine promises: its label, its clock and its order."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from lanes.lane import Lane
from workers.engines.port import EngineRequest, Reply
from workers.engines.simulated import SimulatedEngine, SimulatedSettings
from workers.engines.simulated_latency import INSTANT, LatencyModel


def chat(text: str, lane: Lane = Lane.BULK, **fields: Any) -> EngineRequest:
    body = {"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": text}]}
    return EngineRequest(text, "/v1/chat/completions", {**body, **fields}, lane)


async def started(**settings: Any) -> SimulatedEngine:
    engine = SimulatedEngine(SimulatedSettings("demo", **settings))
    await engine.start()
    return engine


async def test_every_answer_says_that_it_is_simulated() -> None:
    engine = await started(latency=LatencyModel(speed=INSTANT))
    body = json.loads((await engine.run(chat("Hello"))).body)
    assert body["choices"][0]["message"]["content"].startswith("[simulated]")
    assert body["system_fingerprint"] == "simulated"
    await engine.close()


async def test_output_tokens_follow_the_limit_and_ignore_eos() -> None:
    engine = await started(latency=LatencyModel(speed=INSTANT))
    free = await engine.run(chat("free"))
    short = await engine.run(chat("short", max_tokens=5))
    full = await engine.run(chat("full", max_tokens=300, ignore_eos=True))
    reasons = [json.loads(reply.body)["choices"][0]["finish_reason"] for reply in (free, short, full)]
    assert reasons == ["stop", "length", "length"]
    assert (short.usage.output_tokens, full.usage.output_tokens) == (5, 300)
    await engine.close()


async def test_echo_is_exactly_the_last_user_message() -> None:
    engine = await started(latency=LatencyModel(speed=INSTANT), echo=True)
    text = " leading space, \u2028 and a line end\n"
    body = json.loads((await engine.run(chat(text))).body)
    assert body["choices"][0]["message"]["content"] == text
    await engine.close()


def test_a_step_costs_its_prompts_and_its_running_requests() -> None:
    model = LatencyModel(prefill_ms_per_token=2.0, step_ms=10.0, decode_ms_per_request=3.0)
    assert model.step_seconds(prefill_tokens=5, running=4) == 0.032
    assert LatencyModel(speed=INSTANT).step_seconds(prefill_tokens=5, running=4) == 0.0


async def test_answers_take_the_time_of_their_steps() -> None:
    latency = LatencyModel(prefill_ms_per_token=0.0, step_ms=2.0, decode_ms_per_request=0.0)
    engine = await started(seats=2, latency=latency)
    loop = asyncio.get_running_loop()
    began = loop.time()
    await asyncio.gather(*(engine.run(chat(f"{i}", max_tokens=10, ignore_eos=True)) for i in range(6)))
    # Six requests of ten tokens on two seats are thirty steps; timers never fire early.
    assert loop.time() - began >= 30 * 0.002
    await engine.close()


async def test_a_free_seat_goes_to_the_highest_lane() -> None:
    engine = await started(seats=1, latency=LatencyModel(speed=INSTANT))
    ended: list[str] = []

    async def note(request: EngineRequest) -> Reply:
        reply = await engine.run(request)
        ended.append(request.request_id)
        return reply

    await asyncio.gather(
        note(chat("bulk one")), note(chat("bulk two")), note(chat("person", lane=Lane.INTERACTIVE))
    )
    assert ended == ["person", "bulk one", "bulk two"]
    await engine.close()
