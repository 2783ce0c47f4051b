"""Admission: who is taken in, who is cut, deferred or turned away, and that more room never hurts."""

from __future__ import annotations

import json
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from lanes.admission import FULL, TOO_LONG, UNMEETABLE, Kind, Request, decide
from lanes.lane import Lane
from lanes.outlook import Load, outlook
from lanes.policy import DEFAULT

ASKED = Request(100, 100, None, 60.0, Lane.STANDARD, 8_192)  # costs 300
RATE = Load(cost_per_second=100.0)

amounts = st.integers(0, 1_000_000).map(float)
requests = st.builds(
    Request,
    input_tokens=st.integers(1, 10_000),
    expected_output=st.integers(1, 10_000),
    output_limit=st.none() | st.integers(1, 10_000),
    deadline_seconds=st.integers(1, 100_000).map(float),
    lane=st.sampled_from(Lane),
    context_tokens=st.integers(1_000, 100_000),
    may_shorten=st.booleans(),
)
loads = st.builds(
    Load,
    ahead_cost=amounts,
    flows_cost=amounts,
    flows=st.integers(0, 16),
    lane_cost=amounts,
    queued_jobs=st.integers(0, 20_000),
    weight=st.integers(1, 8).map(float),
    active_weights=st.integers(1, 64).map(float),
    cost_per_second=st.integers(1, 10_000).map(float),
)


@given(requests, loads, st.integers(1, 100_000))
def test_more_time_never_turns_a_yes_into_a_no(request: Request, load: Load, more: int) -> None:
    if decide(request, load, DEFAULT).accepted:
        longer = replace(request, deadline_seconds=request.deadline_seconds + more)
        assert decide(longer, load, DEFAULT).accepted


@given(requests, loads, st.sampled_from(["ahead_cost", "flows_cost", "flows", "lane_cost", "queued_jobs"]))
def test_less_load_never_turns_a_yes_into_a_no(request: Request, load: Load, name: str) -> None:
    if decide(request, load, DEFAULT).accepted:
        half = getattr(load, name) // 2
        assert decide(request, replace(load, **{name: half}), DEFAULT).accepted


@given(requests, loads)
def test_without_a_rate_nobody_is_turned_away_for_time(request: Request, load: Load) -> None:
    decision = decide(request, replace(load, cost_per_second=0.0), DEFAULT)
    assert decision.code in (None, FULL, TOO_LONG)


@given(requests, loads)
def test_a_cap_is_never_above_what_was_asked(request: Request, load: Load) -> None:
    decision = decide(request, load, DEFAULT)
    if decision.kind is Kind.CAP_OUTPUT:
        assert decision.tokens is not None
        assert DEFAULT.least_output_tokens <= decision.tokens <= request.expected_output
        assert request.output_limit is None or decision.tokens <= request.output_limit


@given(requests, loads)
def test_what_is_stored_is_json_with_features_and_policy(request: Request, load: Load) -> None:
    stored = json.loads(json.dumps(decide(request, load, DEFAULT).record()))
    assert stored["policy_version"] == DEFAULT.version
    assert stored["features"]["load"]["lane_cost"] == load.lane_cost
    assert stored["features"]["request"]["input_tokens"] == request.input_tokens


def test_an_empty_lane_admits_and_a_busy_one_queues() -> None:
    assert decide(ASKED, RATE, DEFAULT).kind is Kind.ADMIT
    assert decide(ASKED, replace(RATE, lane_cost=500.0), DEFAULT).kind is Kind.QUEUE


def test_a_deadline_that_cannot_be_met_is_told_with_the_time_to_come_back() -> None:
    late = decide(ASKED, replace(RATE, ahead_cost=10_000.0), DEFAULT)
    assert (late.kind, late.code) == (Kind.REJECT, UNMEETABLE)
    assert late.retry_after_seconds == 54  # 1.1 * (100 s of queue + 3 s) are 53.3 s too late
    never = decide(replace(ASKED, deadline_seconds=2.0), RATE, DEFAULT)
    assert (never.code, never.retry_after_seconds) == (UNMEETABLE, None)


def test_it_is_deferred_or_shortened_before_it_is_turned_away() -> None:
    busy = replace(RATE, ahead_cost=10_000.0)
    deferred = decide(ASKED, busy, DEFAULT, {Lane.BULK: RATE})
    assert (deferred.kind, deferred.lane) == (Kind.DEFER, Lane.BULK)
    slow = replace(RATE, seat_cost_per_second=4.0)
    capped = decide(replace(ASKED, may_shorten=True), slow, DEFAULT)
    assert (capped.kind, capped.tokens) == (Kind.CAP_OUTPUT, 59)  # 60 s / 1.1 * 4 cost/s are 218


def test_a_full_queue_and_a_long_input_are_told_as_such() -> None:
    full = decide(ASKED, replace(RATE, queued_jobs=DEFAULT.queued_jobs_limit), DEFAULT)
    assert (full.code, full.retry_after_seconds) == (FULL, 1)
    long = decide(replace(ASKED, input_tokens=8_192), RATE, DEFAULT)
    assert (long.code, long.retry_after_seconds) == (TOO_LONG, None)


def test_a_tenant_waits_for_its_share_but_never_for_more_than_everything() -> None:
    shared = replace(RATE, ahead_cost=1_000.0, lane_cost=10_000.0, active_weights=4.0)
    few = replace(shared, lane_cost=2_000.0)
    starts = [found.start_seconds for load in (shared, few) if (found := outlook(300.0, load))]
    assert starts == [40.0, 20.0]


def test_a_flow_waits_for_its_share_of_its_tenant_but_never_for_more_than_the_tenant() -> None:
    beside = replace(RATE, ahead_cost=1_000.0, flows=3, flows_cost=9_000.0)
    starts = [
        found.start_seconds
        for load in (beside, replace(beside, flows_cost=500.0), replace(beside, ahead_cost=0.0))
        if (found := outlook(300.0, load))
    ]
    assert starts == [40.0, 15.0, 0.0]
