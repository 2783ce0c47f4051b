"""Counting what each lane has, and has had, of an engine; kept inside the scheduler."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from lanes.lane import Lane
from lanes.lane_stats import LaneCounters, LaneStats
from lanes.step_values import StepLoad

_LANES = len(Lane)


class CountedStep(NamedTuple):
    load: StepLoad
    lanes: frozenset[int]  # that it carries


class LaneCounts:
    def __init__(self) -> None:
        self._known = [0] * _LANES  # requests that have not ended
        self._steps = [0] * _LANES
        self._step_ms = [0.0] * _LANES
        self._prefill = [0] * _LANES
        self._decode = [0] * _LANES
        self._preemptions = [0] * _LANES
        self._all_steps = 0
        self._last_step_ms = 0.0

    def entered(self, priority: int, count: int) -> None:
        """`count` more requests of a priority are known to the engine."""
        self._known[_lane(priority)] += count

    def preempted(self, priority: int) -> None:
        """One more request lost its seat."""
        self._preemptions[_lane(priority)] += 1

    def began(self, scheduled: Mapping[str, int], requests: Mapping[str, Any]) -> CountedStep:
        """Count a step that gives `scheduled` tokens, by request; more than one token is prefill."""
        decodes = prefill = context = 0
        lanes = set()
        for key, tokens in scheduled.items():
            request = requests[key]
            lane = _lane(request.priority)
            lanes.add(lane)
            context += request.num_computed_tokens
            if tokens == 1:
                decodes += 1
                self._decode[lane] += 1
            else:
                prefill += tokens
                self._prefill[lane] += tokens
        return CountedStep(StepLoad(decodes, prefill, context), frozenset(lanes))

    def ended(self, step: CountedStep, took_ms: float) -> None:
        """Count the time of a step whose output came."""
        self._all_steps += 1
        self._last_step_ms = took_ms
        for lane in step.lanes:
            self._steps[lane] += 1
            self._step_ms[lane] += took_ms

    def stats(self, scheduler: Any, withheld: Mapping[str, int], knobs_version: int) -> LaneStats:
        """All counters, with the present state of vLLM's scheduler."""
        running, left_out, blocks = [0] * _LANES, [0] * _LANES, [0] * _LANES
        manager = scheduler.kv_cache_manager
        tables = [group.req_to_blocks for group in manager.coordinator.single_type_managers]
        for request in scheduler.running:
            lane, key = _lane(request.priority), request.request_id
            running[lane] += 1
            left_out[lane] += key in withheld
            for table in tables:
                blocks[lane] += len(table.get(key, ()))
        return LaneStats(
            knobs_version=knobs_version,
            steps=self._all_steps,
            last_step_ms=self._last_step_ms,
            seats=scheduler.max_num_active_reqs,
            free_blocks=manager.block_pool.get_num_free_blocks(),
            total_blocks=manager.block_pool.num_gpu_blocks - 1,
            lanes=tuple(
                LaneCounters(
                    running[lane],
                    left_out[lane],
                    self._known[lane] - running[lane],
                    blocks[lane],
                    self._steps[lane],
                    self._step_ms[lane],
                    self._prefill[lane],
                    self._decode[lane],
                    self._preemptions[lane],
                )
                for lane in range(_LANES)
            ),
        )


def _lane(priority: int) -> int:
    return min(max(priority, 0), _LANES - 1)
