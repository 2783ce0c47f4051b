"""What a simulated engine is given and what it tells. Times are milliseconds of virtual time."""

from __future__ import annotations

from dataclasses import dataclass

from lanes.step_values import StepLoad


@dataclass(frozen=True, slots=True)
class SimRequest:
    key: str
    urgent: bool
    arrival_ms: float
    prompt_tokens: int
    output_tokens: int


@dataclass(frozen=True, slots=True)
class SimShape:
    """An engine's sizes; `step_tokens` is the most that one step may carry."""

    seats: int
    blocks: int
    block_tokens: int
    step_tokens: int

    def blocks_for(self, tokens: int) -> int:
        return -(-tokens // self.block_tokens)


@dataclass(frozen=True, slots=True)
class Carried:
    """What one step computed, who was left out of it, and who lost its place for it."""

    tokens: dict[str, int]  # by key
    load: StepLoad
    withheld: tuple[str, ...]
    preempted: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SimStep:
    """A step and how the engine stood after it."""

    begin_ms: float
    end_ms: float
    carried: Carried
    output_tokens: int
    free_seats: int
    free_blocks: int


@dataclass(frozen=True, slots=True)
class SimAnswer:
    request: SimRequest
    first_ms: float  # when its first token was there
    end_ms: float

    @property
    def ttft_ms(self) -> float:
        return self.first_ms - self.request.arrival_ms


@dataclass(frozen=True, slots=True)
class SimRun:
    """`answers` in the order in which they ended."""

    steps: tuple[SimStep, ...]
    answers: tuple[SimAnswer, ...]

    @property
    def tokens_per_s(self) -> float:
        """Output tokens/s from the first arrival to the last answer."""
        begin = min(answer.request.arrival_ms for answer in self.answers)
        end = max(answer.end_ms for answer in self.answers)
        return 1000 * sum(answer.request.output_tokens for answer in self.answers) / (end - begin)
