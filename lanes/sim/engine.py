"""The state of a simulated engine: who waits, who runs, and the KV blocks that they hold.

It follows vLLM 0.32 where that matters to a step's length: prompts are computed in pieces as the
step's tokens allow, blocks are taken when tokens are computed, a waiting request enters only if
its whole prompt finds blocks, and a running one that finds none pushes out the newest.
It knows no prefix cache: whoever was preempted computes everything again.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Collection
from dataclasses import dataclass

from lanes.sim.values import Carried, SimRequest, SimShape
from lanes.step import plan_step
from lanes.step_time import StepTimeModel
from lanes.step_values import BulkRequest, StepKnobs, StepLoad, StepView, UrgentRequest


@dataclass(slots=True, eq=False)
class Held:
    """A request in the engine."""

    request: SimRequest
    number: int  # of its arrival
    computed: int = 0  # tokens in its KV
    produced: int = 0
    blocks: int = 0
    withheld_steps: int = 0

    @property
    def lacks(self) -> int:
        """Tokens to compute before the next one can be sampled; a decoding request lacks one."""
        return self.request.prompt_tokens + self.produced - self.computed

    @property
    def prefill_tokens(self) -> int:
        return self.lacks if self.lacks > 1 else 0


def _number(held: Held) -> int:
    return held.number


class SimEngine:
    """Requests come in by `add`; `step` decides and computes one step; time is its caller's business."""

    def __init__(self, shape: SimShape) -> None:
        self._shape = shape
        self._arrivals = 0
        self._running: list[Held] = []
        self._waiting: dict[bool, list[Held]] = {True: [], False: []}  # by urgent; in order of arrival
        self._waiting_bulk_steps = 0
        self.free_blocks = shape.blocks

    @property
    def busy(self) -> bool:
        return bool(self._running or self._waiting[True] or self._waiting[False])

    @property
    def free_seats(self) -> int:
        return self._shape.seats - len(self._running)

    def add(self, request: SimRequest) -> None:
        """Let a request wait.

        Raises:
            ValueError: it could never run here.
        """
        if self._shape.blocks_for(request.prompt_tokens + request.output_tokens) > self._shape.blocks:
            raise ValueError(f"{request.key} needs more KV blocks than there are")
        self._arrivals += 1
        self._waiting[request.urgent].append(Held(request, self._arrivals))

    def step(self, knobs: StepKnobs, model: StepTimeModel) -> Carried:
        """Decide one step and compute it; `settle` says what came of it once its time has passed."""
        plan = plan_step(self._view(), knobs, model)
        rows = {held.request.key: held for held in self._running}
        for key in plan.preempt:
            self._preempt(rows[key])
        limit = self._shape.step_tokens if plan.token_limit is None else plan.token_limit
        step = _Step(min(limit, self._shape.step_tokens), plan.withhold)
        # Whoever is left out comes first next time, those that enter come last.
        self._running = [rows[key] for key in (*plan.withhold, *plan.step)]
        for held in self._running:
            held.withheld_steps = held.withheld_steps + 1 if held.request.key in step.withheld else 0
        for key in plan.step:
            self._serve(rows[key], step)
        self._admit(self._waiting[True], plan.admit_urgent, step)
        waits = bool(self._waiting[False]) and not plan.admit_bulk
        self._waiting_bulk_steps = self._waiting_bulk_steps + 1 if waits else 0
        self._admit(self._waiting[False], plan.admit_bulk, step)
        load = StepLoad(step.decodes, sum(step.tokens.values()) - step.decodes, self._context(step.tokens))
        return Carried(step.tokens, load, plan.withhold, (*plan.preempt, *step.preempted))

    def settle(self, carried: Carried) -> tuple[list[SimRequest], list[SimRequest], int]:
        """Sample: who got a first token, who ended and left, and how many tokens that made."""
        first, ended, tokens = [], [], 0
        for held in list(self._running):
            if held.request.key not in carried.tokens or held.lacks:
                continue
            held.produced += 1
            tokens += 1
            if held.produced == 1:
                first.append(held.request)
            if held.produced == held.request.output_tokens:
                ended.append(held.request)
                self._leave(held)
        return first, ended, tokens

    def _serve(self, held: Held, step: _Step) -> None:
        tokens = min(held.lacks, step.left)
        if not tokens or held not in self._running:
            return
        while (blocks := self._shape.blocks_for(held.computed + tokens) - held.blocks) > self.free_blocks:
            victim = self._newest_of(step)
            step.push_out(victim.request.key)
            self._preempt(victim)
            if victim is held:
                return
        self._compute(held, tokens, blocks, step)

    def _newest_of(self, step: _Step) -> Held:
        """vLLM's victim: the newest of the last lane among those that the step may carry."""
        return max(
            (held for held in self._running if held.request.key not in step.withheld),
            key=lambda held: (not held.request.urgent, held.number),
        )

    def _admit(self, waiting: list[Held], count: int, step: _Step) -> None:
        """Let up to `count` in; none in a step that had to push somebody out."""
        for _ in range(min(count, len(waiting))):
            held = waiting[0]
            if not step.left or step.preempted or self._shape.blocks_for(held.lacks) > self.free_blocks:
                return
            self._running.append(waiting.pop(0))
            tokens = min(held.lacks, step.left)
            self._compute(held, tokens, self._shape.blocks_for(tokens), step)

    def _compute(self, held: Held, tokens: int, blocks: int, step: _Step) -> None:
        step.take(held.request.key, tokens, decodes=held.lacks == 1)
        self.free_blocks -= blocks
        held.blocks += blocks
        held.computed += tokens

    def _context(self, tokens: dict[str, int]) -> int:
        return sum(held.computed for held in self._running if held.request.key in tokens)

    def _view(self) -> StepView:
        urgent = [held for held in self._running if held.request.urgent]
        bulk = [held for held in self._running if not held.request.urgent]
        waiting = self._waiting[False]
        return StepView(
            urgent=[self._urgent(held) for held in urgent],
            waiting_urgent=[self._urgent(held, 1) for held in self._waiting[True]],
            bulk=[
                BulkRequest(
                    held.request.key,
                    held.prefill_tokens,
                    held.computed,
                    held.blocks,
                    held.withheld_steps,
                    (2, float(held.number)),
                )
                for held in bulk
            ],
            waiting_bulk=len(waiting),
            waiting_bulk_steps=self._waiting_bulk_steps,
            next_bulk_blocks=self._shape.blocks_for(waiting[0].lacks + 1) if waiting else 0,
            seats=self._shape.seats,
            free_blocks=self.free_blocks,
            total_blocks=self._shape.blocks,
            urgent_blocks=sum(held.blocks for held in urgent),
        )

    def _urgent(self, held: Held, room: int = 0) -> UrgentRequest:
        blocks = self._shape.blocks_for(held.computed + held.lacks + room) - held.blocks
        return UrgentRequest(held.request.key, held.prefill_tokens, held.computed, blocks)

    def _leave(self, held: Held) -> None:
        self._running.remove(held)
        self.free_blocks += held.blocks
        held.blocks = 0

    def _preempt(self, held: Held) -> None:
        self._leave(held)
        held.computed = held.withheld_steps = 0
        insort(self._waiting[held.request.urgent], held, key=_number)


class _Step:
    """The tokens of one step."""

    def __init__(self, tokens: int, withheld: Collection[str]) -> None:
        self.left = tokens
        self.withheld = frozenset(withheld)
        self.tokens: dict[str, int] = {}
        self.preempted: list[str] = []
        self._decoding: set[str] = set()

    @property
    def decodes(self) -> int:
        return len(self._decoding)

    def take(self, key: str, tokens: int, *, decodes: bool) -> None:
        self.left -= tokens
        self.tokens[key] = tokens
        if decodes:
            self._decoding.add(key)

    def push_out(self, key: str) -> None:
        """It loses its place, and the step its tokens."""
        self.preempted.append(key)
        self.left += self.tokens.pop(key, 0)
        self._decoding.discard(key)
