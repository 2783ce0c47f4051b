"""Workloads for the simulated queue, and what is read off a run."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import count
from uuid import UUID

from lanes.account import cost
from lanes.lane import Lane
from lanes.policy import DEFAULT, Policy
from lanes.sim.queue_values import JobEnd, QueueRun, SimJob

_numbers = count(1)
Tokens = Callable[[], int] | int


def tenant(number: int) -> UUID:
    return UUID(int=number)


def batch(
    size: int, *, of: int, flow: int | None = None, at: float = 0.0, inputs: Tokens = 100,
    outputs: Tokens = 100,
    limit: int | None = None, lane: Lane = Lane.BULK, deadline: float = float("inf"), rank: int = 0,
    kills: bool = False, errors: int = 0,
) -> list[SimJob]:  # fmt: skip
    """Jobs that arrive together in one flow of tenant `of`."""
    flow_id = UUID(int=(1 << 32) + (of if flow is None else flow))
    return [
        SimJob(
            UUID(int=(1 << 40) + next(_numbers)), tenant(of), flow_id, at,
            inputs if isinstance(inputs, int) else inputs(),
            outputs if isinstance(outputs, int) else outputs(),
            limit, lane, deadline, rank, kills, errors,
        )
        for _ in range(size)
    ]  # fmt: skip


def between(draw: Callable[[], float], least: int, most: int) -> Callable[[], int]:
    """Whole numbers drawn evenly from a range, both ends included."""
    return lambda: least + int(draw() * (most - least + 1))


def of(run: QueueRun, number: int) -> list[JobEnd]:
    """The ended jobs of a tenant."""
    return [end for end in run.ends if end.job.tenant_id == tenant(number)]


def percentile(values: Iterable[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def served(ends: Iterable[JobEnd], begin: float, end: float, policy: Policy = DEFAULT) -> float:
    """The real cost of the jobs that ended in a span of time."""
    return sum(
        cost(each.job.input_tokens, each.job.output_tokens, policy)
        for each in ends
        if begin <= each.ended <= end
    )
