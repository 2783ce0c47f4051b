"""Whether a request is taken in, and how: `decide(request, load, policy) -> Decision`.

The first that holds, in this order: it is expected to end in time in its lane; in another lane that
it may use; with a shorter answer, where that is allowed; else it is turned away, with the numbers.
Where no service rate is known nobody is turned away for time: a young system learns by serving.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from math import ceil
from typing import Any

from lanes.account import cost
from lanes.lane import Lane
from lanes.outlook import Load, Outlook, outlook
from lanes.policy import Policy

UNMEETABLE = "deadline_unmeetable"
FULL = "queue_full"
TOO_LONG = "context_length_exceeded"


class Kind(StrEnum):
    ADMIT = "admit"  # nothing is before it
    QUEUE = "queue"
    DEFER = "defer"  # to another lane
    CAP_OUTPUT = "cap_output"
    REJECT = "reject"


@dataclass(frozen=True, slots=True)
class Request:
    """The profile of a request. `deadline_seconds` counts from now."""

    input_tokens: int
    expected_output: int
    output_limit: int | None
    deadline_seconds: float
    lane: Lane
    context_tokens: int  # of the model
    may_shorten: bool = False  # its client lets the answer be cut to end in time


@dataclass(frozen=True, slots=True)
class Decision:
    """What was decided, with all that it was made of."""

    kind: Kind
    lane: Lane
    features: Mapping[str, Any]
    policy_version: int
    expected: Outlook | None = None
    tokens: int | None = None  # the new limit of the output, of `CAP_OUTPUT`
    code: str | None = None  # of `REJECT`, as are the rest
    message: str | None = None
    numbers: Mapping[str, float] = field(default_factory=dict)
    retry_after_seconds: int | None = None  # None: trying again cannot help

    @property
    def accepted(self) -> bool:
        return self.kind is not Kind.REJECT

    def record(self) -> dict[str, Any]:
        """What is stored with the job: plain JSON values."""
        return {
            "kind": self.kind.value,
            "lane": self.lane.label,
            "policy_version": self.policy_version,
            "features": dict(self.features),
            "expected": None if self.expected is None else asdict(self.expected),
            "tokens": self.tokens,
            "code": self.code,
            "numbers": dict(self.numbers),
            "retry_after_seconds": self.retry_after_seconds,
        }


def decide(
    request: Request, load: Load, policy: Policy, others: Mapping[Lane, Load] | None = None
) -> Decision:
    """The decision over one request.

    Args:
        others: the loads of the lanes to which it may be deferred.
    """
    made = _Maker(request, load, policy)
    if request.input_tokens >= request.context_tokens:
        return made.reject(
            TOO_LONG,
            f"The input has {request.input_tokens} tokens, and the context of the model holds"
            f" {request.context_tokens} with the answer. Shorten the input.",
            {"input_tokens": request.input_tokens, "context_tokens": request.context_tokens},
            None,
        )
    full = made.over_bound()
    if full is not None:
        return full
    output = request.expected_output
    if request.output_limit is not None:
        output = min(output, request.output_limit)
    own = cost(request.input_tokens, output, policy)
    expected = outlook(own, load)
    if expected is None or _in_time(expected, request, policy):
        kind = Kind.QUEUE if load.lane_cost > 0 or load.ahead_cost > 0 else Kind.ADMIT
        return made.accept(kind, request.lane, expected)
    for lane in sorted(others or {}):
        there = outlook(own, (others or {})[lane])
        if there is not None and _in_time(there, request, policy):
            return made.accept(Kind.DEFER, lane, there)
    return made.shorten(expected, output) or made.unmeetable(expected, own)


def _in_time(expected: Outlook, request: Request, policy: Policy) -> bool:
    return policy.admission_margin * expected.finish_seconds <= request.deadline_seconds


class _Maker:
    """Makes decisions over one request; all carry the same features."""

    def __init__(self, request: Request, load: Load, policy: Policy) -> None:
        self._request = request
        self._load = load
        self._policy = policy
        asked = asdict(request)
        asked["lane"] = request.lane.label
        self._features = {"request": asked, "load": asdict(load)}

    def accept(self, kind: Kind, lane: Lane, expected: Outlook | None, tokens: int | None = None) -> Decision:
        return Decision(kind, lane, self._features, self._policy.version, expected, tokens)

    def reject(
        self, code: str, message: str, numbers: Mapping[str, float], retry_after: int | None,
        expected: Outlook | None = None,
    ) -> Decision:  # fmt: skip
        return Decision(
            Kind.REJECT, self._request.lane, self._features, self._policy.version, expected,
            code=code, message=message, numbers=numbers, retry_after_seconds=retry_after,
        )  # fmt: skip

    def over_bound(self) -> Decision | None:
        """Queues are bounded in length, and in time where the rate is known."""
        load, policy = self._load, self._policy
        rate = load.cost_per_second
        seconds = load.lane_cost / rate if rate > 0 else 0.0
        if load.queued_jobs < policy.queued_jobs_limit and seconds <= policy.queued_seconds_limit:
            return None
        return self.reject(
            FULL,
            f"The queue of this lane is full: {load.queued_jobs} jobs wait. Try again later, or use"
            " another lane.",
            {"queued_jobs": load.queued_jobs, "queued_seconds": seconds},
            max(1, ceil(seconds - policy.queued_seconds_limit)),
        )

    def shorten(self, expected: Outlook, output: int) -> Decision | None:
        """A shorter answer that ends in time, where the client allows it."""
        request, policy = self._request, self._policy
        if not request.may_shorten:
            return None
        speed = self._load.seat_cost_per_second or self._load.cost_per_second
        left = request.deadline_seconds / policy.admission_margin - expected.start_seconds
        fits = (left * speed - policy.input_cost * request.input_tokens) / policy.output_cost
        tokens = min(int(fits), output)
        if tokens < policy.least_output_tokens:
            return None
        ends = expected.start_seconds + cost(request.input_tokens, tokens, policy) / speed
        return self.accept(Kind.CAP_OUTPUT, request.lane, Outlook(expected.start_seconds, ends), tokens)

    def unmeetable(self, expected: Outlook, own: float) -> Decision:
        """Turned away, with when to try again; with none where an empty queue would not help."""
        request, policy = self._request, self._policy
        running = policy.admission_margin * (expected.finish_seconds - expected.start_seconds)
        needed = policy.admission_margin * expected.finish_seconds
        wait = ceil(max(1.0, needed - request.deadline_seconds))
        helps = running <= request.deadline_seconds
        return self.reject(
            UNMEETABLE,
            f"It would take about {ceil(needed)} s to answer, and its deadline is in"
            f" {request.deadline_seconds:.0f} s. "
            + (f"Try again in {wait} s, or give it more time." if helps else "Give it more time."),
            {
                "predicted_start_seconds": expected.start_seconds,
                "predicted_finish_seconds": expected.finish_seconds,
                "deadline_seconds": request.deadline_seconds,
                "cost": own,
            },
            wait if helps else None,
            expected,
        )
