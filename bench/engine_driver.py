"""One vLLM engine in a process of its own, told what to do by the bench that started it.

Run as `python -m bench.engine_driver DESCRIPTOR STEPS` by `bench.engine_side`: the descriptor of an
open pipe, and the file for the recorded steps. The engine is the product's: its settings, scheduler
and start. Only the requests go to AsyncLLM directly, as the engine port does not stream and a first
token must be seen when it comes.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from typing import Any

from vllm import SamplingParams
from vllm.inputs import TokensPrompt
from vllm.sampling_params import RequestOutputKind
from vllm.v1.engine.async_llm import AsyncLLM

from bench.gsm8k import questions
from bench.phase import Answer, Backlog, OneByOne, Phase, Quiet, Report, Trace, Turn
from bench.recording import BASE, FILE, RECORDER
from lanes.lane import Lane
from lanes.policy import DEFAULT
from lanes.sim.values import SimShape
from workers.engines.vllm.engine import VllmEngine
from workers.engines.vllm.settings import VllmSettings, vllm_priority


@dataclass(frozen=True, slots=True)
class Prompt:
    number: int
    tokens: Sequence[int]


class Prompts:
    """Real questions as token ids. Each starts with a number of its own, so no two share a prefix block."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._texts = questions()
        self._numbers = itertools.count()

    def next(self) -> Prompt:
        number = next(self._numbers)
        text = f"Question {number}: {self._texts[number % len(self._texts)]}"
        ids = self._tokenizer.apply_chat_template(
            [{"role": "user", "content": text}], add_generation_prompt=True, return_dict=False
        )
        return Prompt(number, ids)


class Driver:
    """Carries out phases on a started engine."""

    def __init__(self, engine: VllmEngine) -> None:
        self._engine = engine
        self._llm = engine._alive()._client
        self._prompts = Prompts(self._llm.get_tokenizer())
        self._knobs = DEFAULT.step
        self._bulk: list[asyncio.Task[None]] = []

    @property
    def shape(self) -> SimShape:
        """The engine's sizes, as vLLM settled them; it never uses one of its KV blocks."""
        config = self._llm.vllm_config
        return SimShape(
            seats=config.scheduler_config.max_num_seqs,
            blocks=config.cache_config.num_gpu_blocks - 1,
            block_tokens=config.cache_config.block_size,
            step_tokens=config.scheduler_config.max_num_batched_tokens,
        )

    async def carry_out(self, phase: Phase) -> Report:
        begin = time.monotonic()
        answers: list[Answer] = []
        match phase:
            case OneByOne():
                for gap in phase.gaps:
                    prompt = self._prompts.next()
                    await asyncio.sleep(gap)
                    answers.append(await self._ask(Lane.INTERACTIVE, prompt, phase.tokens, time.monotonic()))
            case Trace():
                begin, answers = await self._trace(phase)
            case Quiet():
                await asyncio.sleep(phase.seconds)
            case Backlog():
                await self._set_backlog(phase)
            case Turn():
                self._knobs = replace(
                    self._knobs, version=self._knobs.version + 1, max_step_ms=phase.max_step_ms
                )
                self._engine.set_knobs(self._knobs)
        end = time.monotonic()
        for task in self._bulk:
            if task.done():
                task.result()  # a client of the backlog never ends by itself: say why this one did
        return Report(begin, end, tuple(answers))

    async def _trace(self, phase: Trace) -> tuple[float, list[Answer]]:
        prompts = [self._prompts.next() for _ in phase.sends]
        begin = time.monotonic()
        tasks = []
        for send, prompt in zip(phase.sends, prompts, strict=True):
            due = begin + send.at
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            tasks.append(asyncio.create_task(self._ask(send.lane, prompt, send.tokens, due)))
        return begin, list(await asyncio.gather(*tasks))

    async def _set_backlog(self, phase: Backlog) -> None:
        for task in self._bulk:
            task.cancel()
        await asyncio.gather(*self._bulk, return_exceptions=True)
        self._bulk = [asyncio.create_task(self._client(phase.tokens)) for _ in range(phase.clients)]

    async def _client(self, tokens: int) -> None:
        while True:
            await self._ask(Lane.BULK, self._prompts.next(), tokens, time.monotonic())

    async def _ask(self, lane: Lane, prompt: Prompt, tokens: int, sent: float) -> Answer:
        # Bulk asks for its whole answer at once, as the product's batches do.
        kind = RequestOutputKind.DELTA if lane is Lane.INTERACTIVE else RequestOutputKind.FINAL_ONLY
        params = SamplingParams(max_tokens=tokens, ignore_eos=True, temperature=0, output_kind=kind)
        first, got = 0.0, 0
        async for output in self._llm.generate(
            TokensPrompt(prompt_token_ids=list(prompt.tokens)),
            params,
            f"bench-{prompt.number}",
            priority=vllm_priority(lane),
        ):
            first = first or time.monotonic()
            got += len(output.outputs[0].token_ids)
        assert got == tokens, f"{got} of {tokens} tokens came"
        return Answer(lane, len(prompt.tokens), tokens, sent, first, time.monotonic())


def record_steps(file: str) -> None:
    """Put the recorder in front of whatever scheduler an engine is about to start with."""
    original = AsyncLLM.__init__

    def recording(self: Any, vllm_config: Any, *args: Any, **kwargs: Any) -> None:
        base = vllm_config.scheduler_config.get_scheduler_cls()
        os.environ[BASE] = f"{base.__module__}.{base.__qualname__}"
        os.environ[FILE] = file
        vllm_config.scheduler_config.scheduler_cls = RECORDER
        original(self, vllm_config, *args, **kwargs)

    AsyncLLM.__init__ = recording


async def serve(parent: Connection, driver: Driver) -> None:
    """Carry out what comes, until the bench closes the pipe, which also ends a phase half-way.

    Raises:
        EOFError: it did.
    """
    coming = asyncio.ensure_future(asyncio.to_thread(parent.recv))
    while True:
        phase = await coming
        coming = asyncio.ensure_future(asyncio.to_thread(parent.recv))
        working = asyncio.ensure_future(driver.carry_out(phase))
        await asyncio.wait({coming, working}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            working.cancel()
            await coming
        parent.send(working.result())


async def main(descriptor: int, steps: str) -> None:
    with Connection(descriptor) as parent:
        settings: VllmSettings = await asyncio.to_thread(parent.recv)
        record_steps(steps)
        engine = VllmEngine(settings)
        try:
            await engine.start()
            driver = Driver(engine)
            parent.send(driver.shape)
            with contextlib.suppress(EOFError):
                await serve(parent, driver)
            await driver.carry_out(Backlog(0))
        finally:
            await engine.close()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), sys.argv[2]))
