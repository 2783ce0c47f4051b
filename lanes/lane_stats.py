"""What an engine tells of its lanes after each step."""

from __future__ import annotations

from dataclasses import dataclass

from lanes.lane import Lane


@dataclass(frozen=True, slots=True)
class LaneCounters:
    """One lane. The first four are the state now, the others have grown since the engine started."""

    running: int = 0  # hold a seat, those withheld included
    withheld: int = 0  # of the running: left out of the last step
    waiting: int = 0
    kv_blocks: int = 0
    steps: int = 0  # that carried the lane
    step_ms: float = 0.0  # all of those steps together
    prefill_tokens: int = 0
    decode_tokens: int = 0
    preemptions: int = 0


@dataclass(frozen=True, slots=True)
class LaneStats:
    """The lanes of one engine, in the order of `Lane`. Zero where an engine cannot tell."""

    knobs_version: int = 0  # in force in the last step
    steps: int = 0
    last_step_ms: float = 0.0
    seats: int = 0
    free_blocks: int = 0
    total_blocks: int = 0
    lanes: tuple[LaneCounters, ...] = (LaneCounters(), LaneCounters(), LaneCounters())

    def of(self, lane: Lane) -> LaneCounters:
        """The counters of one lane."""
        return self.lanes[lane]
