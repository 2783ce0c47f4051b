"""vLLM's real scheduler with lanes and no model behind it: thousands of steps a second.

vLLM is imported inside the functions: it may not be installed, and reads its environment on import.
"""

from __future__ import annotations

import functools
import itertools
import os
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from db.settings import demo_model_folder
from lanes.lane import Lane
from lanes.lane_stats import LaneStats
from lanes.step_time import StepTimeModel
from lanes.step_values import StepKnobs, StepLoad
from workers.engines.vllm.control_block import ControlBlock
from workers.engines.vllm.environment import vllm_environment

BLOCK = 16
os.environ.update(vllm_environment(os.sched_getaffinity(0)))  # read while vLLM is imported, below


@functools.cache
def vllm_config() -> Any:
    """The configuration of an engine for the demo model; building it takes seconds."""
    from vllm.engine.arg_utils import AsyncEngineArgs  # noqa: PLC0415 (see above)

    return AsyncEngineArgs(
        model=str(demo_model_folder(os.environ)),
        dtype="bfloat16",
        max_model_len=512,
        max_num_seqs=8,
        max_num_batched_tokens=512,
        block_size=BLOCK,
        enforce_eager=True,
        scheduling_policy="priority",
        kv_cache_memory_bytes=1 << 28,
    ).create_engine_config()


@dataclass
class Step:
    """What one step carried: tokens by request, and which requests it prefilled."""

    tokens: dict[str, int]
    prefilled: frozenset[str]
    withheld: dict[str, int]

    def of(self, lane: Lane) -> set[str]:
        return {key for key in self.tokens if key.startswith(lane.label)}


class Known(StepTimeModel):
    """A machine that is known from the start: steps without a model take no time worth learning."""

    def learn(self, load: StepLoad, took_ms: float) -> StepTimeModel:  # noqa: ARG002 (as its base)
        return self


@dataclass
class BareEngine:
    """An engine whose model answers at once with some token. `ahead`: steps scheduled before one ends."""

    seats: int = 8
    blocks: int = 100
    knobs: StepKnobs = field(default_factory=StepKnobs)
    ahead: int = 0

    def __post_init__(self) -> None:
        import torch  # noqa: PLC0415 (see above)
        from vllm.utils.hashing import sha256  # noqa: PLC0415 (see above)
        from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash  # noqa: PLC0415 (see above)
        from vllm.v1.kv_cache_interface import (  # noqa: PLC0415 (see above)
            FullAttentionSpec,
            KVCacheConfig,
            KVCacheGroupSpec,
        )
        from vllm.v1.structured_output import StructuredOutputManager  # noqa: PLC0415 (see above)

        from workers.engines.vllm.lane_scheduler import AsyncLaneScheduler, LaneScheduler  # noqa: PLC0415 (see above)

        config = vllm_config()
        config.scheduler_config.max_num_seqs = self.seats
        config.cache_config.num_gpu_blocks = self.blocks + 1
        self.block = ControlBlock.create(self.knobs)
        config.additional_config = self.block.name
        init_none_hash(sha256)
        self._hasher = get_request_block_hasher(BLOCK, sha256)
        spec = FullAttentionSpec(block_size=BLOCK, num_kv_heads=1, head_size=1, dtype=torch.float32)
        self.scheduler = (AsyncLaneScheduler if self.ahead else LaneScheduler)(
            vllm_config=config,
            kv_cache_config=KVCacheConfig(self.blocks + 1, [], [KVCacheGroupSpec(["layer"], spec)]),
            structured_output_manager=StructuredOutputManager(config),
            block_size=BLOCK,
        )
        self.scheduler._model = Known()
        self.steps: list[Step] = []
        self._flying: deque[tuple[Any, Any]] = deque()
        self._numbers = itertools.count()

    def add(self, lane: Lane, prompt: int, output: int, same: bool = False) -> str:
        """Add a request of so many tokens; prompts share a beginning only where they are the `same`."""
        from vllm.sampling_params import SamplingParams  # noqa: PLC0415 (see above)
        from vllm.v1.request import Request  # noqa: PLC0415 (see above)

        number = next(self._numbers)
        params = SamplingParams(max_tokens=output, ignore_eos=True)
        key = f"{lane.label}-{number}"
        request = Request(
            key,
            [7 if same else 1000 + number] * prompt,
            params,
            None,
            arrival_time=float(number),
            priority=int(lane),
            block_hasher=self._hasher,
        )
        self.scheduler.add_request(request)
        return key

    def abort(self, keys: Iterable[str]) -> None:
        from vllm.v1.request import RequestStatus  # noqa: PLC0415 (see above)

        self.scheduler.finish_requests(list(keys), RequestStatus.FINISHED_ABORTED)

    def step(self) -> None:
        """Schedule one step, and end the oldest one in flight once `ahead` are waiting behind it."""
        from vllm.v1.outputs import ModelRunnerOutput  # noqa: PLC0415 (see above)

        if self.scheduler.has_requests():
            before = {r.request_id: self._lacks(r) for r in self.scheduler.requests.values()}
            output = self.scheduler.schedule()
            tokens = dict(output.num_scheduled_tokens)
            prefilled = frozenset(key for key in tokens if before[key] > 1)
            self.steps.append(Step(tokens, prefilled, dict(self.scheduler._withheld_steps)))
            keys = list(tokens)
            sampled = [[] if self.scheduler.requests[key].is_prefill_chunk else [11] for key in keys]
            model = ModelRunnerOutput(keys, {key: i for i, key in enumerate(keys)}, sampled)
            self._flying.append((output, model))
        if self._flying and (len(self._flying) > self.ahead or not self.scheduler.has_requests()):
            self.scheduler.update_from_output(*self._flying.popleft())

    @staticmethod
    def _lacks(request: Any) -> int:
        lacking: int = request.num_tokens + request.num_output_placeholders - request.num_computed_tokens
        return lacking

    def drain(self, limit: int = 20_000) -> None:
        """Step until nothing is left."""
        for _ in range(limit):
            if not self.scheduler.has_requests() and not self._flying:
                return
            self.step()
        raise AssertionError(f"{len(self.scheduler.requests)} requests never ended")

    def stats(self) -> LaneStats:
        return self.block.stats()

    def close(self) -> None:
        self.scheduler.shutdown()
        self.block.close()
