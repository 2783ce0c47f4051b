"""Each rule of one engine step, on any view of an engine; `test_step_runs.py` has those about many steps."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from lanes.step import plan_step
from lanes.step_time import StepTimeModel
from lanes.step_values import BulkRequest, StepKnobs, StepLoad, StepPlan, StepView, UrgentRequest

MODEL = StepTimeModel(weights=(10.0, 64.0, 256.0, 16.0))  # 10 ms, 1 ms a decode or token, 1 ms per 1024 in KV


def prompts() -> st.SearchStrategy[int]:
    return st.just(0) | st.integers(2, 900)


def urgents(prefix: str, prefills: st.SearchStrategy[int]) -> st.SearchStrategy[list[UrgentRequest]]:
    one = st.tuples(prefills, st.integers(0, 500), st.integers(0, 8))
    named = st.lists(one, max_size=6)
    return named.map(lambda rows: [UrgentRequest(f"{prefix}{i}", *row) for i, row in enumerate(rows)])


@st.composite
def views(draw: st.DrawFn) -> StepView:
    urgent = draw(urgents("u", prompts()))
    rows = draw(
        st.lists(st.tuples(prompts(), st.integers(0, 900), st.integers(1, 8), st.integers(0, 9)), max_size=20)
    )
    ages = draw(st.permutations(range(len(rows))))
    bulk = [
        BulkRequest(f"b{i}", *row, (2, float(age)))
        for i, (row, age) in enumerate(zip(rows, ages, strict=True))
    ]
    urgent_blocks = draw(st.integers(0, 30))
    held = urgent_blocks + sum(request.blocks for request in bulk)
    free = draw(st.integers(0, 60))
    return StepView(
        urgent=urgent,
        waiting_urgent=draw(urgents("w", st.integers(1, 900))),
        bulk=bulk,
        waiting_bulk=draw(st.integers(0, 30)),
        waiting_bulk_steps=draw(st.integers(0, 9)),
        next_bulk_blocks=draw(st.integers(1, 8)),
        seats=max(1, len(urgent) + len(bulk) + draw(st.integers(0, 6))),
        free_blocks=free,
        total_blocks=held + free,
        urgent_blocks=urgent_blocks,
    )


KNOBS = st.builds(
    StepKnobs,
    version=st.just(1),
    max_step_ms=st.floats(5.0, 200.0),
    reserve_seats=st.integers(0, 4),
    reserve_block_share=st.floats(0.0, 0.5),
    bulk_prefill_tokens=st.integers(1, 600),
    max_withheld_steps=st.integers(1, 10),
    paused_block_share=st.floats(0.0, 1.0),
)


def stepped_bulk(view: StepView, plan: StepPlan) -> list[BulkRequest]:
    return [request for request in view.bulk if request.key in set(plan.step)]


def carries_urgent_prefill(view: StepView, plan: StepPlan) -> bool:
    prefilling = {request.key for request in view.urgent if request.prefill_tokens}
    return plan.admit_urgent > 0 or not prefilling.isdisjoint(plan.step)


@given(views(), KNOBS)
def test_every_running_request_is_stepped_withheld_or_preempted_once(
    view: StepView, knobs: StepKnobs
) -> None:
    plan = plan_step(view, knobs, MODEL)
    running = [request.key for request in view.urgent] + [request.key for request in view.bulk]
    assert sorted((*plan.step, *plan.withhold, *plan.preempt)) == sorted(running)


@given(views(), KNOBS)
def test_seats_suffice_for_all_who_keep_or_take_one(view: StepView, knobs: StepKnobs) -> None:
    plan = plan_step(view, knobs, MODEL)
    assert len(plan.step) + len(plan.withhold) + plan.admit_urgent + plan.admit_bulk <= view.seats


@given(views(), KNOBS)
def test_urgent_requests_go_first_and_their_decodes_always(view: StepView, knobs: StepKnobs) -> None:
    plan = plan_step(view, knobs, MODEL)
    stepped_urgent = [key for key in plan.step if key.startswith("u")]
    assert list(plan.step[: len(stepped_urgent)]) == stepped_urgent
    assert {request.key for request in view.urgent if not request.prefill_tokens} <= set(stepped_urgent)


@given(views(), KNOBS)
def test_a_step_with_an_urgent_prefill_carries_no_bulk(view: StepView, knobs: StepKnobs) -> None:
    plan = plan_step(view, knobs, MODEL)
    if carries_urgent_prefill(view, plan):
        assert stepped_bulk(view, plan) == []
        assert plan.admit_bulk == 0


@given(views(), KNOBS)
def test_an_urgent_prefill_waits_only_for_due_bulk(view: StepView, knobs: StepKnobs) -> None:
    plan = plan_step(view, knobs, MODEL)
    due = any(request.withheld_steps >= knobs.max_withheld_steps for request in stepped_bulk(view, plan))
    due = due or (plan.admit_bulk > 0 and view.waiting_bulk_steps >= knobs.max_withheld_steps)
    if any(request.prefill_tokens for request in view.urgent) and not due:
        assert {request.key for request in view.urgent} <= set(plan.step)
    first = view.waiting_urgent[0] if view.waiting_urgent else None
    empty = not view.urgent and not view.bulk  # then the engine alone knows whether it fits
    if first is not None and len(view.urgent) < view.seats and not due and not empty:
        need = first.blocks + sum(request.blocks for request in view.urgent)
        assert (plan.admit_urgent > 0) == (need <= view.total_blocks - view.urgent_blocks)


@given(views(), KNOBS)
def test_bulk_beside_urgent_decodes_keeps_to_the_time_unless_it_is_due(
    view: StepView, knobs: StepKnobs
) -> None:
    plan = plan_step(view, knobs, MODEL)
    bulk = stepped_bulk(view, plan)
    if not any(request.prefill_tokens == 0 for request in view.urgent) or not (bulk or plan.admit_bulk):
        return
    urgent = [request for request in view.urgent if request.key in set(plan.step)]
    assert plan.token_limit is not None
    decodes = len(urgent) + sum(1 for request in bulk if not request.prefill_tokens)
    context = sum(r.context_tokens for r in urgent) + sum(r.context_tokens for r in bulk)
    expected = MODEL.expect(StepLoad(decodes, plan.token_limit - decodes, context))
    assert abs(expected - plan.expected_ms) < 1e-6
    due = max((request.withheld_steps for request in bulk), default=0)
    due = max(due, view.waiting_bulk_steps if plan.admit_bulk else 0)
    if due < knobs.max_withheld_steps:
        assert expected <= knobs.max_step_ms + 1e-6


@given(views(), KNOBS)
def test_bulk_prefill_is_bounded_in_every_step(view: StepView, knobs: StepKnobs) -> None:
    plan = plan_step(view, knobs, MODEL)
    bulk = stepped_bulk(view, plan)
    if plan.token_limit is None:
        assert not bulk
        assert plan.admit_bulk == 0
    else:
        urgent = sum(1 for key in plan.step if key.startswith("u"))
        decodes = sum(1 for request in bulk if not request.prefill_tokens)
        tokens = plan.token_limit - urgent - decodes
        assert tokens >= 0
        assert tokens <= knobs.bulk_prefill_tokens or plan.expected_ms <= knobs.max_step_ms + 1e-6


@given(views(), KNOBS)
def test_without_urgent_requests_every_decode_goes_on(view: StepView, knobs: StepKnobs) -> None:
    alone = replace(view, urgent=(), waiting_urgent=(), urgent_blocks=0)
    plan = plan_step(alone, replace(knobs, paused_block_share=1.0), MODEL)
    left = set(plan.withhold)
    assert all(request.prefill_tokens for request in view.bulk if request.key in left)


def shortage(view: StepView, knobs: StepKnobs, plan: StepPlan, gone: set[str]) -> bool:
    """Whether urgent requests, or what is kept for them, lack a seat or blocks with `gone` preempted."""
    staying = [request for request in view.bulk if request.key not in gone]
    freed = sum(request.blocks for request in view.bulk if request.key in gone)
    need = sum(r.blocks for r in (*view.urgent, *view.waiting_urgent[: plan.admit_urgent]))
    seats = max(len(view.urgent) + plan.admit_urgent, min(knobs.reserve_seats, view.seats - 1))
    reserve = int(knobs.reserve_block_share * view.total_blocks) - view.urgent_blocks
    blocks = max(need, reserve) if len(staying) > 1 else need
    return len(staying) > view.seats - seats or blocks > view.free_blocks + freed


@given(views(), KNOBS)
def test_the_newest_bulk_gives_way_and_no_more_than_needed(view: StepView, knobs: StepKnobs) -> None:
    calm = replace(knobs, paused_block_share=1.0, max_withheld_steps=100)  # nothing else preempts or delays
    plan = plan_step(view, calm, MODEL)
    newest_first = sorted(view.bulk, key=lambda request: request.order, reverse=True)
    assert list(plan.preempt) == [request.key for request in newest_first[: len(plan.preempt)]]
    if plan.preempt:
        assert shortage(view, calm, plan, set(plan.preempt[:-1]))
        assert plan.admit_bulk == 0
    if len(plan.preempt) < len(view.bulk):
        assert not shortage(view, calm, plan, set(plan.preempt))


@given(views(), KNOBS)
def test_bulk_enters_only_into_what_is_not_kept_for_urgent_requests(view: StepView, knobs: StepKnobs) -> None:
    plan = plan_step(view, knobs, MODEL)
    if not plan.admit_bulk:
        return
    assert not view.waiting_urgent or view.waiting_bulk_steps >= knobs.max_withheld_steps
    need = sum(request.blocks for request in view.urgent)
    if view.bulk:
        seats = max(len(view.urgent), min(knobs.reserve_seats, view.seats - 1))
        assert len(view.bulk) + plan.admit_bulk <= view.seats - seats
        need = max(need, int(knobs.reserve_block_share * view.total_blocks) - view.urgent_blocks)
    if view.bulk or view.urgent:
        assert plan.admit_bulk * view.next_bulk_blocks <= view.free_blocks - need


@given(views(), KNOBS)
def test_kv_of_withheld_bulk_is_bounded_and_the_newest_go(view: StepView, knobs: StepKnobs) -> None:
    plan = plan_step(view, knobs, MODEL)
    withheld = [request for request in view.bulk if request.key in set(plan.withhold)]
    bound = int(knobs.paused_block_share * view.total_blocks)
    assert sum(request.blocks for request in withheld) <= bound or len(withheld) == 1
    roomy = plan_step(view, replace(knobs, paused_block_share=1.0), MODEL)
    left = set(plan.preempt) - set(roomy.preempt)
    orders = [request.order for request in view.bulk if request.key in left]
    assert all(order > request.order for order in orders for request in withheld)
