"""What the decision of one engine step reads and says; `lanes.step` decides.

"Urgent" is lane P0, "bulk" every other lane. A request that lacks the KV of more than its last
token is prefilling; any other decodes, and costs one token a step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class StepKnobs:
    """What may be turned while an engine runs. `version` rises with each change of the others."""

    version: int = 1
    # The expected length of a step in which urgent and bulk requests share, and of one that reads
    # more than `bulk_prefill_tokens` of bulk prompts: what an arriving urgent request has to wait for.
    max_step_ms: float = 150.0
    reserve_seats: int = 2  # seats that bulk leaves to urgent requests, running ones included
    reserve_block_share: float = 0.02  # likewise KV blocks, as a share of all
    bulk_prefill_tokens: int = 256  # of bulk prompts, in a step of whatever length without urgent requests
    max_withheld_steps: int = 64  # no bulk request is left out of more steps on end
    paused_block_share: float = 0.9  # KV that requests left out of a step may hold, as a share of all

    def without_urgent(self) -> StepKnobs:
        """These in an engine that serves no P0: nothing is kept for it, and bulk prompts have no bound."""
        return replace(self, reserve_seats=0, reserve_block_share=0.0, bulk_prefill_tokens=1 << 30)


class UrgentRequest(NamedTuple):
    """A P0 request. A running one that decodes has `prefill_tokens` 0."""

    key: str
    prefill_tokens: int  # still to be computed before the next token can be sampled
    context_tokens: int  # in its KV
    blocks: int  # KV blocks that it still lacks: for its whole prompt, or for its next token


class BulkRequest(NamedTuple):
    """A running request of another lane."""

    key: str
    prefill_tokens: int  # 0 when it decodes
    context_tokens: int
    blocks: int  # KV blocks that preempting it would free
    withheld_steps: int  # steps on end that it has been left out of
    order: tuple[int, float]  # lane and arrival: the greatest is the newest, and is preempted first


@dataclass(frozen=True, slots=True)
class StepView:
    """An engine before a step. Of the waiting requests only those that could start now are here."""

    urgent: Sequence[UrgentRequest]  # running
    waiting_urgent: Sequence[UrgentRequest]  # in the order in which they will enter
    bulk: Sequence[BulkRequest]  # running, in turn: withheld, then stepped, each as in the plan before
    waiting_bulk: int
    waiting_bulk_steps: int  # steps on end in which bulk waited and none was let in
    next_bulk_blocks: int  # KV blocks that the first of the waiting bulk needs to enter
    seats: int
    free_blocks: int
    total_blocks: int
    urgent_blocks: int  # held by running urgent requests


@dataclass(frozen=True, slots=True)
class StepPlan:
    """What the next step does. The keys of `step`, `withhold` and `preempt` are all running requests.

    The step serves `step` in order, then lets waiting requests in, urgent ones first; each takes
    the tokens it lacks while `token_limit` (None: the engine's own limit) lasts.
    """

    step: tuple[str, ...]
    withhold: tuple[str, ...]  # left out of this step; they keep their seats and their KV
    preempt: tuple[str, ...]  # lose both, and wait again
    admit_urgent: int
    admit_bulk: int
    token_limit: int | None
    expected_ms: float


class StepLoad(NamedTuple):
    """What a step's length depends on."""

    decodes: int
    prefill_tokens: int
    context_tokens: int  # KV read, over all requests of the step
