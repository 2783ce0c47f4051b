"""The simulated engine: nothing is lost, urgent work waits no longer than stated, bulk always goes on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lanes.sim.arrivals import poisson
from lanes.sim.run import simulate
from lanes.sim.values import SimRequest, SimRun, SimShape
from lanes.step_time import StepTimeModel
from lanes.step_values import StepKnobs

CLOCK = StepTimeModel(weights=(20.0, 64.0, 128.0, 0.0))
SMALL = SimShape(seats=8, blocks=24, block_tokens=16, step_tokens=256)
ROOMY = SimShape(seats=64, blocks=4000, block_tokens=16, step_tokens=512)


def bulk(count: int, *, prompt: int = 40, output: int = 30, at: float = 0.0) -> list[SimRequest]:
    return [SimRequest(f"b{i}", False, at, prompt, output) for i in range(count)]


def urgent(times: Sequence[float], *, prompt: int = 40, output: int = 4) -> list[SimRequest]:
    return [SimRequest(f"u{i}", True, at, prompt, output) for i, at in enumerate(times)]


requests = st.lists(
    st.tuples(st.booleans(), st.floats(0, 4000), st.integers(1, 150), st.integers(1, 120)),
    min_size=1,
    max_size=40,
)


def computed(run: SimRun, key: str) -> int:
    return sum(step.carried.tokens.get(key, 0) for step in run.steps)


@settings(max_examples=60, deadline=None)
@given(requests, st.integers(0, 4), st.floats(0.0, 0.5), st.integers(1, 300), st.floats(10.0, 200.0))
def test_every_request_ends_and_gives_back_what_it_held(
    rows: list[tuple[bool, float, int, int]], seats: int, share: float, prefill: int, max_step_ms: float
) -> None:
    knobs = StepKnobs(
        reserve_seats=seats,
        reserve_block_share=share,
        bulk_prefill_tokens=prefill,
        max_step_ms=max_step_ms,
        max_withheld_steps=16,
    )
    sent = [SimRequest(f"r{i}", *row) for i, row in enumerate(rows)]
    run = simulate(sent, SMALL, knobs, clock=CLOCK)
    assert Counter(answer.request for answer in run.answers) == Counter(sent)
    assert (run.steps[-1].free_seats, run.steps[-1].free_blocks) == (SMALL.seats, SMALL.blocks)
    assert min(step.free_seats for step in run.steps) >= 0
    assert min(step.free_blocks for step in run.steps) >= 0
    assert sum(step.output_tokens for step in run.steps) == sum(r.output_tokens for r in sent)
    preempted = Counter(key for step in run.steps for key in step.carried.preempted)
    for request in sent:
        # Each token but the last is computed once, and again only by those who lost their place.
        least = request.prompt_tokens + request.output_tokens - 1
        assert computed(run, request.key) == least or preempted[request.key]
        assert computed(run, request.key) >= least


@settings(max_examples=30, deadline=None)
@given(st.lists(st.floats(0, 0.999), min_size=1, max_size=30), st.floats(0.5, 6.0))
def test_urgent_waits_for_one_step_of_bulk_and_rarely_for_one_that_was_due(
    draws: list[float], per_second: float
) -> None:
    knobs = StepKnobs(max_withheld_steps=64)
    arrivals = [1000 * at for at in poisson(draws, per_second)]
    run = simulate([*bulk(200), *urgent(arrivals)], ROOMY, knobs, clock=CLOCK)
    late = 0
    for answer in run.answers:
        if answer.request.urgent:
            before = [
                step
                for step in run.steps
                if answer.request.arrival_ms < step.end_ms <= answer.first_ms
                and any(key.startswith("b") for key in step.carried.tokens)
            ]
            assert len(before) <= 2  # the one that ran, and one for bulk that was due
            late += len(before) == 2
    assert late <= len(run.steps) / (knobs.max_withheld_steps // 2) + 1


def test_urgent_takes_a_seat_when_bulk_holds_them_all() -> None:
    run = simulate(
        [*bulk(20, output=200), *urgent([2000.0] * 6)], SMALL, StepKnobs(reserve_seats=0), clock=CLOCK
    )
    waits = [answer.ttft_ms for answer in run.answers if answer.request.urgent]
    assert max(waits) <= 3 * CLOCK.expect(run.steps[0].carried.load)
    assert any(step.carried.preempted for step in run.steps)


@pytest.mark.parametrize("bound", [4, 16, 64])
def test_bulk_goes_on_beside_urgent_work_that_never_pauses(bound: int) -> None:
    """A request of one token is a prefill in every step: without ageing no bulk would ever be stepped."""
    prefills = urgent([500 + 20.0 * i for i in range(1000)], prompt=8, output=1)
    knobs = StepKnobs(max_withheld_steps=bound)
    run = simulate([*bulk(6, output=2000), *prefills], ROOMY, knobs, clock=CLOCK)
    busy = [step for step in run.steps if 500 < step.begin_ms < 20_000]
    with_urgent = sum(any(key.startswith("u") for key in step.carried.tokens) for step in busy)
    assert with_urgent > (1 - 2 / bound) * len(busy) - 2
    for i in range(6):
        turns = [n for n, step in enumerate(busy) if f"b{i}" in step.carried.tokens]
        assert len(turns) > 8
        assert max(b - a for a, b in pairwise(turns)) <= bound + 1


def test_the_same_draws_give_the_same_run() -> None:
    sent = [*bulk(30), *urgent([1000 * at for at in poisson([0.3, 0.7, 0.1, 0.9], 2.0)])]
    first = simulate(sent, SMALL, StepKnobs(), clock=CLOCK, stretch=(1.0, 1.3, 0.8))
    assert simulate(sent, SMALL, StepKnobs(), clock=CLOCK, stretch=(1.0, 1.3, 0.8)) == first


def test_what_can_never_run_is_refused() -> None:
    with pytest.raises(ValueError, match="more KV blocks than there are"):
        simulate(bulk(1, prompt=500), SMALL, StepKnobs(), clock=CLOCK)


def test_arrivals_come_at_the_rate_asked_for() -> None:
    draws = [(i + 0.5) / 1000 for i in range(1000)]
    assert poisson(draws, 4.0)[-1] == pytest.approx(250, rel=0.01)
