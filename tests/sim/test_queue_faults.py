"""What is accepted ends once, whatever happens to workers, engines and clients meanwhile."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from math import ceil, inf, log2
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lanes import transitions
from lanes.job import JobState
from lanes.policy import DEFAULT
from lanes.sim.faults import drawn_faults
from lanes.sim.queue_run import run_queue
from lanes.sim.queue_values import Fault, FaultKind, QueueRun, QueueShape, SimJob
from tests.sim.workload import batch

SEEDS = [1, 7, 11, 23, 20_260_101]


def states(run: QueueRun) -> Counter[JobState]:
    return Counter(end.state for end in run.ends)


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 127), st.integers(1, 2), st.sampled_from([8, 64, 128]))
def test_one_killer_among_127_ends_alone_and_the_others_well(place: int, workers: int, seats: int) -> None:
    jobs = batch(127, of=1, outputs=50)
    killer = batch(1, of=1, outputs=50, kills=True)
    shape = QueueShape(workers=workers, seats=seats, ahead=seats // 2)

    run = run_queue([*jobs[:place], *killer, *jobs[place:]], shape, DEFAULT, Random(place).random)

    assert states(run) == {JobState.SUCCEEDED: 127, JobState.FAILED: 1}
    failed = next(end for end in run.ends if end.state is JobState.FAILED)
    assert (failed.job, failed.failure) == (killer[0], "engine_killer")
    assert all(end.attempts == 0 for end in run.ends if end is not failed)
    # Every death is on the culprit's path, and each halves the company that it had.
    companies = [len(death.jobs) for death in run.deaths]
    assert all(killer[0].id in death.jobs for death in run.deaths)
    assert companies[-1] == 1
    assert len(companies) <= ceil(log2(companies[0])) + 1 <= 8


def test_each_of_several_killers_is_found() -> None:
    jobs = batch(60, of=1, outputs=50) + batch(4, of=1, outputs=50, kills=True)
    Random(2).shuffle(jobs)

    run = run_queue(jobs, QueueShape(workers=2, seats=32, ahead=0), DEFAULT, Random(2).random)

    assert {end.job.kills: end.state for end in run.ends} == {
        True: JobState.FAILED,
        False: JobState.SUCCEEDED,
    }
    assert states(run) == {JobState.SUCCEEDED: 60, JobState.FAILED: 4}


@pytest.mark.parametrize(("patience", "deaths"), [(5.0, 2), (inf, 1)])
def test_a_busy_worker_makes_way_for_suspects_that_wait_too_long(patience: float, deaths: int) -> None:
    """The engine that died does not come back, and the other worker has endless other work."""
    jobs = batch(1, of=2, outputs=50, kills=True) + batch(4_000, of=1, outputs=200)
    policy = replace(DEFAULT, suspect_patience_seconds=patience)
    shape = QueueShape(workers=2, seats=16, ahead=8, restart_seconds=1000.0)

    run = run_queue(jobs, shape, policy, Random(3).random, until=60)

    assert len(run.deaths) == deaths


@pytest.mark.parametrize("seed", SEEDS)
def test_five_evictions_fail_no_job(seed: int) -> None:
    chance = Random(seed)
    faults = [Fault(5.0 + 12 * n + chance.random(), FaultKind.EVICT, n % 2) for n in range(5)]

    run = run_queue(batch(3_000, of=1), QueueShape(2), DEFAULT, chance.random, faults=faults)

    assert states(run) == {JobState.SUCCEEDED: 3_000}
    assert run.events["evict"] == 5
    assert run.events["rescue"] > 100
    assert all(end.attempts == 0 for end in run.ends)


def test_a_zombie_reports_nothing() -> None:
    """It stands still beyond its lease, wakes, and hands in what it thinks it still holds."""
    stall = Fault(2.0, FaultKind.STALL, 0, seconds=16.0)

    run = run_queue(batch(300, of=1, outputs=400), QueueShape(2), DEFAULT, Random(4).random, faults=[stall])

    assert states(run) == {JobState.SUCCEEDED: 300}
    assert run.events["refused"] > 10
    assert max(Counter(end.job.id for end in run.ends).values()) == 1
    # When it wakes, at 18 s, others have run its jobs for some time: their ends count.
    assert sum(end.leases == 2 for end in run.ends) > 10
    assert all(end.ended != 18.0 for end in run.ends)


def test_a_short_stall_costs_nobody_a_lease() -> None:
    stall = Fault(2.0, FaultKind.STALL, 0, seconds=5.0)

    run = run_queue(batch(300, of=1, outputs=400), QueueShape(1), DEFAULT, Random(4).random, faults=[stall])

    assert run.events["rescue"] == run.events["refused"] == 0
    assert {end.leases for end in run.ends} == {1}


def test_errors_are_retried_within_the_attempts() -> None:
    jobs = [job for errors in range(5) for job in batch(20, of=1, errors=errors)]

    run = run_queue(jobs, QueueShape(1), DEFAULT, Random(5).random)

    for end in run.ends:
        ends_well = end.job.errors < DEFAULT.attempts
        assert end.state is (JobState.SUCCEEDED if ends_well else JobState.FAILED)
        assert end.attempts == min(end.job.errors, DEFAULT.attempts)


def test_a_broken_engine_is_not_flooded_with_retries() -> None:
    """When every job fails, the budget sends retries to the ceiling of their backoff."""
    jobs = batch(200, of=1, outputs=10, errors=2)

    run = run_queue(jobs, QueueShape(1, seats=8, ahead=4), DEFAULT, Random(6).random)

    assert states(run) == {JobState.SUCCEEDED: 200}
    soon = sum(end.ended < DEFAULT.backoff_limit_seconds for end in run.ends)
    # two retries a job, from the saved burst and a tenth of those that finish
    assert soon <= DEFAULT.retry_budget_burst / 2 + 1


def troubled(seed: int) -> tuple[list[SimJob], QueueRun]:
    """Twelve batches of three tenants, killers among them, while workers come and go."""
    chance = Random(seed)
    jobs = [
        job
        for flow in range(12)
        for job in batch(
            100, of=flow % 3, flow=flow, at=10.0 * flow, outputs=600, errors=int(flow == 3), rank=flow % 2,
            deadline=40.0 if flow == 0 else 300.0 + 60 * flow,
        )
    ]  # fmt: skip
    jobs += [job for at in (20.0, 70.0, 110.0) for job in batch(1, of=1, flow=99, at=at, kills=True)]
    flows = [jobs[100 * flow].flow_id for flow in (4, 5, 10, 11)]
    faults = drawn_faults(chance.random, workers=3, horizon=250.0, every=10.0, flows=flows)
    shape = QueueShape(3, seats=8, ahead=4)
    return jobs, run_queue(jobs, shape, DEFAULT, chance.random, faults=faults)


@pytest.mark.parametrize("seed", SEEDS)
def test_whatever_happens_everything_ends_once(seed: int) -> None:
    jobs, run = troubled(seed)

    assert Counter(end.job.id for end in run.ends) == Counter(job.id for job in jobs)
    assert all(end.state is JobState.FAILED for end in run.ends if end.failure)
    assert {end.failure for end in run.ends} <= {None, "engine_killer", "engine_error"}
    # only its own errors and its own deaths count against a job
    assert all(end.attempts <= end.job.errors + end.job.kills for end in run.ends)
    assert run.deaths


def test_the_seeds_together_meet_every_kind_of_event() -> None:
    """A run that lacks a kind of event has shown nothing about it."""
    met = {name for seed in SEEDS for name in troubled(seed)[1].events}

    # Ends of running jobs at their deadline are not simulated.
    beyond = {transitions.STOP_EXPIRED.name, transitions.BURY_EXPIRED.name}
    assert {transition.name for transition in transitions.TABLE} - beyond <= met
    assert set(FaultKind) | {"refused"} <= met


def test_the_same_seed_gives_the_same_run() -> None:
    def once() -> QueueRun:
        chance = Random(8)
        faults = drawn_faults(chance.random, workers=2, horizon=60.0, every=5.0, flows=[])
        return run_queue(jobs, QueueShape(2, seats=8, ahead=4), DEFAULT, chance.random, faults=faults)

    jobs = batch(300, of=1, outputs=200)
    assert once() == once()
