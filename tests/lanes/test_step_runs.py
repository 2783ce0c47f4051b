"""Rules that only many steps show: nobody waits too long, turns are fair, urgent work is held up rarely."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from lanes.step import plan_step
from lanes.step_time import StepTimeModel
from lanes.step_values import BulkRequest, StepKnobs, StepPlan, StepView, UrgentRequest

MODEL = StepTimeModel(weights=(10.0, 64.0, 256.0, 0.0))


class Engine:
    """Running bulk that decodes for ever, beside urgent requests that are given for each step."""

    def __init__(self, bulk: int, knobs: StepKnobs) -> None:
        self.knobs = knobs
        self.withheld = {f"b{i}": 0 for i in range(bulk)}
        self.turns: Counter[str] = Counter()

    def step(self, urgent: Sequence[UrgentRequest], waiting_bulk: int = 0, idle_steps: int = 0) -> StepPlan:
        bulk = [BulkRequest(key, 0, 0, 1, steps, (2, float(key[1:]))) for key, steps in self.withheld.items()]
        seats = 2 * len(bulk) + 20
        view = StepView(urgent, (), bulk, waiting_bulk, idle_steps, 1, seats, 1000, 2000, 10)
        plan = plan_step(view, self.knobs, MODEL)
        for key in plan.step:
            self.turns[key] += 1
        turns = [key for key in (*plan.withhold, *plan.step) if key in self.withheld]
        self.withheld = {key: self.withheld[key] + 1 if key in plan.withhold else 0 for key in turns}
        return plan


DECODE, PREFILL = UrgentRequest("u0", 0, 0, 0), UrgentRequest("u0", 100, 0, 1)


@settings(max_examples=40)
@given(
    st.lists(st.sampled_from([(), (DECODE,), (PREFILL,)]), min_size=30, max_size=120),
    st.integers(1, 12),
    st.integers(1, 20),
    st.floats(1.0, 40.0),
)
def test_no_bulk_is_withheld_for_longer_than_the_bound(
    urgent: list[tuple[UrgentRequest, ...]], bound: int, bulk: int, max_step_ms: float
) -> None:
    engine = Engine(bulk, StepKnobs(max_withheld_steps=bound, max_step_ms=max_step_ms))
    for requests in urgent:
        engine.step(requests)
        assert max(engine.withheld.values()) <= bound


@given(st.integers(2, 16), st.integers(1, 20), st.integers(0, 15))
def test_urgent_prefills_without_a_gap_are_held_up_rarely(bound: int, bulk: int, spread: int) -> None:
    engine = Engine(bulk, StepKnobs(max_withheld_steps=bound))
    for i, key in enumerate(engine.withheld):
        engine.withheld[key] = i % (min(spread, bound) + 1)
    steps = 10 * bound
    held_up = sum(1 for _ in range(steps) if "u0" not in engine.step((PREFILL,)).step)
    assert 0 < held_up <= steps / (bound // 2) + 2


@given(st.integers(2, 40), st.floats(12.0, 60.0))
def test_turns_are_fair(bulk: int, max_step_ms: float) -> None:
    engine = Engine(bulk, StepKnobs(max_withheld_steps=1000, max_step_ms=max_step_ms))
    for _ in range(100):
        engine.step((DECODE,))
    turns = [engine.turns[key] for key in engine.withheld]
    assert max(turns) - min(turns) <= 1
    assert sum(turns) == 100 * min(bulk, int(max_step_ms - 10 - 1))


def test_waiting_bulk_gets_in_though_urgent_prefills_never_pause() -> None:
    engine = Engine(0, StepKnobs(max_withheld_steps=8))
    assert engine.step((PREFILL,), waiting_bulk=3, idle_steps=7).admit_bulk == 0
    plan = engine.step((PREFILL,), waiting_bulk=3, idle_steps=8)
    assert plan.admit_bulk == 3
    assert plan.step == ()


def test_an_empty_engine_always_lets_the_next_one_in() -> None:
    knobs = StepKnobs(reserve_seats=4, reserve_block_share=0.5)
    view = StepView((), (), (), 5, 0, 200, seats=4, free_blocks=100, total_blocks=100, urgent_blocks=0)
    assert plan_step(view, knobs, MODEL).admit_bulk == 1


def test_a_prefill_left_out_for_want_of_time_has_the_next_turn() -> None:
    knobs = StepKnobs(max_step_ms=60.0)
    rows = [BulkRequest(f"b{i}", 0, 0, 1, 0, (2, float(i))) for i in range(60)]
    rows.append(BulkRequest("prompt", 200, 0, 1, 1, (2, 60.0)))
    view = StepView((DECODE,), (), rows, 0, 0, 1, 80, 1000, 2000, 10)
    plan = plan_step(view, knobs, MODEL)
    assert plan.step == ("u0", "prompt")
    assert plan.token_limit == 1 + 49


def shared(bulk: Sequence[BulkRequest], knobs: StepKnobs, urgent_blocks: int = 0) -> StepPlan:
    view = StepView((DECODE,), (), bulk, 30, 0, 3, 80, 20, 100, urgent_blocks)
    return plan_step(view, knobs, READING)


READING = StepTimeModel(weights=(10.0, 64.0, 256.0, 16384.0))  # as MODEL, and 1 ms for each token in KV


def test_nobody_passes_whom_the_time_left_out() -> None:
    late = [BulkRequest("long", 0, 80, 1, 3, (2, 0.0)), BulkRequest("short", 0, 1, 1, 2, (2, 1.0))]
    assert shared(late, StepKnobs(max_step_ms=50.0)).withhold == ("long", "short")
    assert shared(late[1:], StepKnobs(max_step_ms=50.0)).withhold == ()


def test_no_new_bulk_passes_a_prompt_that_the_time_left_out() -> None:
    late = [BulkRequest("long", 100, 80, 1, 3, (2, 0.0))]
    assert shared(late, StepKnobs(max_step_ms=60.0)).admit_bulk == 0
    assert shared((), StepKnobs(max_step_ms=60.0)).admit_bulk > 0


def test_blocks_kept_for_urgent_requests_let_no_bulk_in() -> None:
    running = [BulkRequest("b", 0, 1, 1, 0, (2, 0.0))]
    knobs = StepKnobs(reserve_block_share=0.1)
    assert shared(running, knobs).admit_bulk == (20 - 10) // 3
    assert shared(running, knobs, urgent_blocks=10).admit_bulk == 20 // 3
