"""Lanes, deadlines and ranks over whole runs of the simulated queue."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from random import Random

import pytest

from lanes.job import JobState
from lanes.lane import Lane
from lanes.policy import DEFAULT, Policy
from lanes.sim.queue_run import run_queue
from lanes.sim.queue_values import QueueRun, QueueShape, SimJob
from tests.sim.workload import batch, percentile, served

WORKER = QueueShape(workers=1, seats=16, ahead=8)


def both_lanes(policy: Policy, *, bulk_outputs: int = 100) -> QueueRun:
    """P1 and P2 both want more than there is."""
    jobs = batch(10_000, of=1, lane=Lane.STANDARD)
    jobs += batch(10_000, of=2, lane=Lane.BULK, outputs=bulk_outputs)
    return run_queue(jobs, WORKER, policy, Random(1).random, until=300)


def of_lane(run: QueueRun, lane: Lane) -> float:
    return served((end for end in run.ends if end.job.lane is lane), 0, inf)


# Bulk jobs may be far smaller or larger than the others: the share is of cost, not of seats.
@pytest.mark.parametrize("bulk_outputs", [10, 100, 600])
def test_p2_keeps_its_share_and_p1_has_the_rest(bulk_outputs: int) -> None:
    run = both_lanes(DEFAULT, bulk_outputs=bulk_outputs)

    bulk, standard = of_lane(run, Lane.BULK), of_lane(run, Lane.STANDARD)
    assert bulk / (bulk + standard) == pytest.approx(DEFAULT.p2_min_share, abs=0.035)


def test_p1_goes_before_p2() -> None:
    jobs = batch(2_000, of=2, lane=Lane.BULK)
    for second in range(10, 60):
        jobs += batch(2, of=1, at=float(second), lane=Lane.STANDARD)

    run = run_queue(jobs, WORKER, DEFAULT, Random(2).random)

    waits = [end.wait for end in run.ends if end.job.lane is Lane.STANDARD]
    assert percentile(waits, 0.95) < 1.0  # the next seats that come free are theirs


@pytest.mark.parametrize(("age", "found"), [(20.0, True), (inf, False)])
def test_an_aged_lane_is_served_whatever_the_order_says(age: float, *, found: bool) -> None:
    """P0 takes everything and P2 has no share of it: only its age gets it a seat."""
    policy = replace(DEFAULT, p2_min_share=0.0, age_seconds=age)
    jobs = batch(5_000, of=1, lane=Lane.INTERACTIVE) + batch(5, of=2, lane=Lane.BULK)

    run = run_queue(jobs, WORKER, policy, Random(3).random, until=150)

    ended = [end for end in run.ends if end.job.lane is Lane.BULK]
    assert bool(ended) == found
    if found:
        assert len(ended) == 5
        assert min(end.wait for end in ended) == pytest.approx(age, abs=2 * DEFAULT.beat_seconds)


@pytest.mark.parametrize(("age", "found"), [(20.0, True), (inf, False)])
def test_a_job_behind_others_of_its_flow_ages(age: float, *, found: bool) -> None:
    """Jobs of a better rank keep coming faster than they can be run."""
    policy = replace(DEFAULT, age_seconds=age)
    last = batch(1, of=1, flow=1, at=5.0, rank=5)
    jobs = last + [job for at in range(60) for job in batch(20, of=1, flow=1, at=float(at))]

    run = run_queue(jobs, WORKER, policy, Random(4).random, until=60)

    assert any(end.job is last[0] for end in run.ends) == found


def urgent_in_time(share: float) -> tuple[int, int]:
    """A batch that needs more than its half of the tenant, due early, beside an endless one; how many
    ended in time, and how many of the endless one by then."""
    urgent = batch(300, of=1, flow=1, at=10.0, deadline=40.0)
    jobs = [*batch(5_000, of=1, flow=2), *urgent]
    policy = replace(DEFAULT, at_risk_share=share)
    run = run_queue(jobs, WORKER, policy, Random(5).random, until=45)
    met = [end for end in run.of_flow(urgent[0].flow_id) if end.state is JobState.SUCCEEDED]
    return sum(end.ended <= 40.0 for end in met), sum(end.job.flow_id == jobs[0].flow_id for end in run.ends)


def test_a_flow_that_would_miss_its_deadline_goes_first_within_its_share() -> None:
    without, _ = urgent_in_time(0.0)
    half, beside = urgent_in_time(0.5)
    most, _ = urgent_in_time(0.9)

    # 30 s of 16 seats are 480 jobs: 240 at an equal share, and 300 are wanted
    assert without < 260
    assert without < half < most
    assert most >= 290
    assert beside > 100


def test_what_is_not_run_by_its_deadline_expires_and_the_rest_is_kept() -> None:
    jobs: list[SimJob] = batch(500, of=1, deadline=10.0)

    run = run_queue(jobs, WORKER, DEFAULT, Random(6).random)

    by_state = {state: [end for end in run.ends if end.state is state] for state in JobState}
    assert len(by_state[JobState.SUCCEEDED]) > 140
    assert len(by_state[JobState.SUCCEEDED]) + len(by_state[JobState.EXPIRED]) == 500
    assert all(end.ended <= 10.0 + DEFAULT.beat_seconds for end in by_state[JobState.EXPIRED])
