"""The steps that an engine recorded, and what they say about a span of time."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from bench.phase import Report
from lanes.step_values import StepLoad


class Step(NamedTuple):
    """One engine step. A request that lacks more than its last token prefills, any other decodes."""

    begin: float  # when the scheduler was asked
    end: float  # when it had taken in what the model sampled
    p0_decodes: int
    p0_prefill: int  # tokens
    p0_context: int  # tokens whose KV is read
    p0_sampled: int  # output tokens
    p2_decodes: int
    p2_prefill: int
    p2_context: int
    p2_sampled: int
    running: int  # requests that hold a seat, withheld ones included

    @property
    def has_p0(self) -> bool:
        return self.p0_decodes + self.p0_prefill > 0

    @property
    def load(self) -> StepLoad:
        return StepLoad(
            self.p0_decodes + self.p2_decodes,
            self.p0_prefill + self.p2_prefill,
            self.p0_context + self.p2_context,
        )


def read_steps(path: Path) -> list[Step]:
    """All complete lines of a recorder's file; the engine may be writing the last one."""
    lines = path.read_text().split("\n")[:-1]
    return [Step(*json.loads(line)) for line in lines]


def between(steps: Iterable[Step], begin: float, end: float) -> list[Step]:
    """The steps that ended in the span."""
    return [step for step in steps if begin <= step.end < end]


def within(steps: Iterable[Step], report: Report) -> list[Step]:
    """The steps that ended while a phase ran."""
    return between(steps, report.begin, report.end)


def p2_rate(steps: Sequence[Step], report: Report) -> float:
    """P2 output tokens/s during a phase."""
    return sum(step.p2_sampled for step in within(steps, report)) / (report.end - report.begin)


def p2_step_seconds(steps: Iterable[Step]) -> float:
    """Median duration of the steps that carry P2 alone."""
    return statistics.median(step.end - step.begin for step in steps if not step.has_p0)
