"""The decision of one engine step: whom to step, withhold and preempt, and how many tokens to take.

1. Urgent (P0) requests are stepped first, always.
2. A step that carries an urgent prefill carries no bulk at all.
3. Where urgent requests only decode, bulk joins while the step is expected to end in `max_step_ms`.
4. Bulk prefill is bounded in every step: it is what an arriving urgent request may have to wait for.
5. Seats and KV blocks that urgent requests need, or that are kept for them, are taken from the
   newest bulk, and no more of it than needed (`lanes.step_space`).
6. Who was withheld longest goes first. Bulk withheld for `max_withheld_steps` is due: it is stepped
   whatever rules 2 and 3 say. If an urgent prefill stands in the way, it waits for that one step,
   which takes along all bulk that would be due within half that time: so this happens once in
   `max_withheld_steps / 2` steps at most. Likewise waiting bulk that nothing but rule 2 or 3 has
   kept out for so long is let in, if no other bulk gets on.
7. KV held by withheld bulk is bounded; beyond the bound the newest of them are preempted.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from lanes.step_fill import Filling
from lanes.step_space import Space, beyond_pause_bound, space
from lanes.step_time import StepTimeModel
from lanes.step_values import BulkRequest, StepKnobs, StepLoad, StepPlan, StepView, UrgentRequest


def plan_step(view: StepView, knobs: StepKnobs, model: StepTimeModel) -> StepPlan:
    """Decide the next step. Time grows with the number of running requests."""
    room = space(view, knobs)
    gone = {request.key for request in room.preempt}
    bulk = [request for request in view.bulk if request.key not in gone] if gone else list(view.bulk)
    bulk.sort(key=_withheld_steps, reverse=True)  # stable, and nearly sorted already
    urgent_prefill = room.admit_urgent > 0 or any(request.prefill_tokens for request in view.urgent)
    waited = view.waiting_bulk_steps >= knobs.max_withheld_steps
    due_to_enter = waited and room.admit_bulk > 0 and (urgent_prefill or not bulk)
    if urgent_prefill and not due_to_enter and not _due(bulk, knobs):
        return _urgent_alone(view, bulk, room, knobs, model)
    return _shared(view, bulk, room, knobs, model, urgent_prefill=urgent_prefill, enter=due_to_enter)


def bulk_prefill_bound(decoding: StepLoad, knobs: StepKnobs, model: StepTimeModel) -> int:
    """The most tokens of bulk prompts in one step, beside every request that decodes.

    What `max_step_ms` leaves room for: thousands on a GPU, and more while few requests decode yet.
    """
    left_ms = knobs.max_step_ms - model.expect(decoding)
    in_time = left_ms / model.prefill_ms if model.prefill_ms else 0.0
    return max(knobs.bulk_prefill_tokens, int(in_time))


def _with_decodes(load: StepLoad, bulk: Sequence[BulkRequest]) -> StepLoad:
    """A step that also carries every decode of bulk, and reads the KV of all of it."""
    decodes = sum(1 for request in bulk if not request.prefill_tokens)
    contexts = sum(request.context_tokens for request in bulk)
    return StepLoad(load.decodes + decodes, load.prefill_tokens, load.context_tokens + contexts)


def _withheld_steps(request: BulkRequest) -> int:
    return request.withheld_steps


def _is_prefill(request: UrgentRequest) -> bool:
    return request.prefill_tokens > 0


def _due(bulk: Sequence[BulkRequest], knobs: StepKnobs) -> bool:
    """Whether running bulk must go on now; `bulk` has the longest withheld first."""
    return bool(bulk) and bulk[0].withheld_steps >= knobs.max_withheld_steps


def _urgent_alone(
    view: StepView, bulk: Sequence[BulkRequest], room: Space, knobs: StepKnobs, model: StepTimeModel
) -> StepPlan:
    """Every urgent request, those that enter included, and nothing else."""
    entering = view.waiting_urgent[: room.admit_urgent]
    load = StepLoad(
        sum(1 for request in view.urgent if not request.prefill_tokens),
        sum(request.prefill_tokens for request in (*view.urgent, *entering)),
        sum(request.context_tokens for request in view.urgent),
    )
    step = [request.key for request in sorted(view.urgent, key=_is_prefill)]
    return _plan(view, step, [], bulk, room, knobs, room.admit_urgent, 0, None, model.expect(load))


def _shared(
    view: StepView,
    bulk: Sequence[BulkRequest],
    room: Space,
    knobs: StepKnobs,
    model: StepTimeModel,
    *,
    urgent_prefill: bool,
    enter: bool,
) -> StepPlan:
    """Urgent decodes, then bulk decodes, then bulk prefills, then waiting bulk.

    With `urgent_prefill` only what is due is taken; else what time allows, and what is due anyway.
    `enter`: waiting bulk is due as well.
    """
    urgent = [request for request in view.urgent if not request.prefill_tokens]
    aside = [request.key for request in view.urgent if request.prefill_tokens]
    contexts = sum(request.context_tokens for request in urgent)
    limit = -inf if urgent_prefill else knobs.max_step_ms if urgent else inf
    begun = StepLoad(len(urgent), 0, contexts)
    everyone = _with_decodes(begun, bulk)
    filling = Filling(model, model.expect(begun), limit, bulk_prefill_bound(everyone, knobs, model))
    # Taking along what is half due must not leave nothing for the waiting bulk that is.
    soon = urgent_prefill and not enter
    forced_at = knobs.max_withheld_steps // 2 if soon else knobs.max_withheld_steps
    for request in bulk:
        filling.offer(request, forced=request.withheld_steps >= forced_at)
    admit = filling.offer_new(room.admit_bulk, forced=enter)
    step = [request.key for request in urgent] + filling.decodes + filling.prefills
    tokens = len(urgent) + len(filling.decodes) + filling.prefill_tokens
    return _plan(view, step, aside, filling.withheld, room, knobs, 0, admit, tokens, filling.ms)


def _plan(
    view: StepView,
    step: Sequence[str],
    aside: Sequence[str],
    withheld: Sequence[BulkRequest],
    room: Space,
    knobs: StepKnobs,
    admit_urgent: int,
    admit_bulk: int,
    token_limit: int | None,
    expected_ms: float,
) -> StepPlan:
    leaving = beyond_pause_bound(withheld, int(knobs.paused_block_share * view.total_blocks))
    gone = {request.key for request in leaving}
    return StepPlan(
        step=tuple(step),
        withhold=(*aside, *(request.key for request in withheld if request.key not in gone)),
        preempt=tuple(request.key for request in (*room.preempt, *leaving)),
        admit_urgent=admit_urgent,
        # None where somebody is withheld: whoever leaves here does not come straight back.
        admit_bulk=admit_bulk,
        token_limit=token_limit,
        expected_ms=expected_ms,
    )
