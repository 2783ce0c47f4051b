"""Invariants 1, 2, 4 and 6 of the design, checked on what PostgreSQL shows after each step.

They are said here once more and in other words than the code, so that an oracle that shares a
fault with the product does not hide it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from uuid import UUID

from lanes.job import LEASED
from lanes.policy import Policy
from tests.conformance.port import Hold, JobName, View


@dataclass(slots=True)
class Watch:
    """Remembers what was seen before; each method raises AssertionError where a rule is broken."""

    last: View | None = None
    fences: dict[JobName, int] = field(default_factory=dict)  # of the latest lease
    most_leased: int = 0

    def leased(self, holds: Iterable[Hold]) -> None:
        """Invariant 2: every lease has a fence of its own, above all earlier ones."""
        for hold in holds:
            assert hold.fence > self.fences.get(hold.job, 0), f"{hold} was given out before"
            self.fences[hold.job] = hold.fence

    def step(self, view: View) -> None:
        if self.last is not None:
            _one_terminal_state(self.last, view)
            _leases_move_with_their_fence(self.last, view)
        _lines_add_up(view)
        self.most_leased = max(self.most_leased, sum(job.state in LEASED for job in view.jobs.values()))
        self.last = view


def _one_terminal_state(before: View, after: View) -> None:
    """Invariant 1: no job is lost, and what ended stays as it ended."""
    for name, job in before.jobs.items():
        assert name in after.jobs, f"{name} is lost"
        if job.state.is_terminal:
            assert after.jobs[name] == job, f"{name} had ended as {job.state}"


def _leases_move_with_their_fence(before: View, after: View) -> None:
    """Invariant 2: a lease changes hands, or goes, only under a higher fence or for ever."""
    for name, job in before.jobs.items():
        now = after.jobs[name]
        assert now.fence >= job.fence, f"the fence of {name} fell"
        if job.state in LEASED and not now.state.is_terminal and now.boot != job.boot:
            assert now.fence > job.fence, f"{name} left its worker under the old fence"
    for name, now in after.jobs.items():
        assert (now.state in LEASED) == (now.boot is not None), f"{name} is {now.state} with {now.boot}"


def _lines_add_up(view: View) -> None:
    """Invariant 4: every line is live or ended, counted once, and of a closed batch in one file."""
    live: Counter[UUID] = Counter()
    ended: Counter[UUID] = Counter()
    for name, job in view.jobs.items():
        (ended if job.state.is_terminal else live)[name.flow] += 1
    for batch, flow in view.flows.items():
        assert live[batch] + ended[batch] == flow.total
        assert flow.succeeded + flow.unsuccessful == ended[batch], "the counts a reader is told"
        if flow.status.is_terminal:
            lines = sorted(flow.output_lines + flow.error_lines)
            assert lines == list(range(1, flow.total + 1)), "each line once, in one of the files"


@dataclass(frozen=True, slots=True)
class Bound:
    """Invariant 6 in numbers, for jobs that cost between `least` and `most`.

    A tenant is served only while it is behind, so a claim can put it ahead of another one that
    waits by its quantum, one job, and what the plan could not know of the jobs behind the heads.
    From then on only settlements move it: those of the jobs that are leased.
    """

    policy: Policy
    least: float
    most: float
    over: float  # how far beyond its prediction a job may run

    def of_claim(self, weight: float) -> float:
        unknown = self.policy.slice_jobs * (self.most - self.least)
        return (self.policy.quantum_cost + self.most + unknown) / weight

    def of_service(self, weight: float, leased: int) -> float:
        return self.of_claim(weight) + leased * (self.most + self.over) / weight


@dataclass(slots=True)
class Fairness:
    """Invariant 6 between tenants that have jobs waiting all the time."""

    bound: Bound
    weights: Mapping[UUID, float]
    gaps: dict[tuple[UUID, UUID], float] = field(default_factory=dict)  # when both began to wait

    def claimed(self, view: View, served: Counter[UUID], waiting: set[UUID]) -> None:
        """Nobody was served far ahead of a tenant that waited before and after the claim."""
        for ahead in served:
            for behind in waiting - {ahead}:
                gap = view.vtimes[ahead, None] - view.vtimes[behind, None]
                least = min(self.weights[ahead], self.weights[behind])
                assert gap <= self.bound.of_claim(least), f"{ahead} is {gap} ahead of {behind}"

    def step(self, view: View, waiting: set[UUID], leased: int) -> None:
        """The gap of two that wait both has not grown beyond the bound since they do."""
        pairs = {(one, other) for one in waiting for other in waiting if one < other}
        self.gaps = {pair: gap for pair, gap in self.gaps.items() if pair in pairs}
        for one, other in pairs:
            gap = view.vtimes[one, None] - view.vtimes[other, None]
            began = self.gaps.setdefault((one, other), gap)
            least = min(self.weights[one], self.weights[other])
            allowed = abs(began) + self.bound.of_service(least, leased)
            assert abs(gap) <= allowed, f"{gap} between {one} and {other}, at most {allowed}"
