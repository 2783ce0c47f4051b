"""Our scheduler changes when a token is computed, not which one.

In bfloat16 a result depends a little on the shape of the batch that it was computed in. So tokens
are equal where both engines carry the same steps, and elsewhere each request's logprobs agree to
within `TOLERANCE` up to the first token that differs (stock vLLM does not keep more than that
between two batch sizes either, which is measured here beside it).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any, NamedTuple

import pytest

from lanes.lane import Lane
from lanes.policy import DEFAULT
from lanes.step_values import StepKnobs
from tests.engines.subjects import vllm_settings
from tests.eventually import eventually
from workers.engines.vllm.engine import VllmEngine
from workers.engines.vllm.lane_control import LaneKind

pytestmark = [pytest.mark.vllm, pytest.mark.slow, pytest.mark.asyncio, pytest.mark.timeout(600)]

TOLERANCE = 0.5  # nats, of one token's logprob; bfloat16 tells logits of 16 to 32 apart by 0.125
SEATS, TOKENS = 8, 24
FREE = StepKnobs().without_urgent()  # each step is vLLM's own while only bulk runs
# So little that beside a P0 request bulk is stepped only when it is due.
TIGHT = replace(FREE, version=2, max_step_ms=0.1, max_withheld_steps=4, bulk_prefill_tokens=24)


class Answer(NamedTuple):
    tokens: tuple[int, ...]
    logprobs: tuple[float, ...]


class Subject:
    """An engine whose requests all begin in the same step, so that two engines carry the same steps."""

    def __init__(self, engine: VllmEngine) -> None:
        self._client: Any = engine._alive()._client

    async def answer(
        self, prompts: Sequence[Sequence[int]], label: str, urgent: int = 0
    ) -> tuple[Answer, ...]:
        """Answers of bulk requests, beside `urgent` P0 requests that follow one another."""
        await self._client.pause_generation(mode="keep", clear_cache=True)
        asked = [
            asyncio.create_task(self._ask(prompt, f"{label}-{number}", Lane.BULK))
            for number, prompt in enumerate(prompts)
        ]
        known = self._client.output_processor.request_states
        await asyncio.to_thread(eventually, lambda: len(known) == len(prompts), within_s=10)
        await self._client.resume_generation()
        for number in range(urgent):
            await self._ask(prompts[0][::-1], f"{label}-urgent-{number}", Lane.INTERACTIVE)
        return tuple(await asyncio.gather(*asked))

    async def _ask(self, prompt: Sequence[int], key: str, lane: Lane) -> Answer:
        from vllm import SamplingParams  # noqa: PLC0415 (only where vLLM is installed)
        from vllm.inputs import TokensPrompt  # noqa: PLC0415 (only where vLLM is installed)
        from vllm.sampling_params import RequestOutputKind  # noqa: PLC0415 (only where vLLM is installed)

        params = SamplingParams(
            temperature=0,
            max_tokens=TOKENS,
            ignore_eos=True,
            logprobs=0,
            output_kind=RequestOutputKind.FINAL_ONLY,
            skip_reading_prefix_cache=True,
        )
        last: Any = None
        async for output in self._client.generate(
            TokensPrompt(prompt_token_ids=list(prompt)), params, key, priority=int(lane)
        ):
            last = output.outputs[0]
        sampled = [step[token].logprob for token, step in zip(last.token_ids, last.logprobs, strict=True)]
        return Answer(tuple(last.token_ids), tuple(sampled))


def random_prompts() -> list[list[int]]:
    random = Random(7)
    return [[random.randrange(1000, 20000) for _ in range(random.randint(5, 90))] for _ in range(SEATS)]


def worst_difference(one: Sequence[Answer], other: Sequence[Answer]) -> float:
    """The greatest difference of a logprob, over each pair's tokens up to the first that differs."""
    worst = 0.0
    for a, b in zip(one, other, strict=True):
        for token, twin, logprob, its in zip(a.tokens, b.tokens, a.logprobs, b.logprobs, strict=True):
            worst = max(worst, abs(logprob - its))
            if token != twin:
                break
    return worst


async def answers_of(lanes: LaneKind) -> dict[str, tuple[Answer, ...]]:
    settings = replace(vllm_settings(), max_num_seqs=SEATS, lanes=lanes)
    engine = VllmEngine(settings, replace(DEFAULT, step=FREE))
    try:
        await engine.start()
        assert engine.lanes == lanes
        subject, prompts = Subject(engine), random_prompts()
        together = await subject.answer(prompts, "together")
        alone = tuple([(await subject.answer([prompt], f"alone-{n}"))[0] for n, prompt in enumerate(prompts)])
        engine.set_knobs(TIGHT)
        beside = await subject.answer(prompts, "beside", urgent=3)
        if lanes == "subclass":
            assert engine.lane_stats().knobs_version == TIGHT.version
            carried = [engine.lane_stats().of(lane).steps for lane in (Lane.INTERACTIVE, Lane.BULK)]
            assert min(carried) > 0
        return {"together": together, "alone": alone, "beside": beside}
    finally:
        await engine.close()


async def test_a_request_gets_the_same_tokens_as_on_the_plain_engine() -> None:
    ours, stock = await answers_of("subclass"), await answers_of("cap")
    assert ours["together"] == stock["together"]
    assert ours["alone"] == stock["alone"]
    # Withheld, cut into pieces and preempted for P0: other steps, the same model.
    difference = worst_difference(ours["beside"], stock["together"])
    yardstick = worst_difference(stock["alone"], stock["together"])
    print(f"greatest difference of a logprob: {difference:.3f}, of stock between batch sizes {yardstick:.3f}")
    assert max(difference, yardstick) <= TOLERANCE
