"""The plan: seats are shared by weight, within room and quantum, and never promised twice."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from math import ceil, inf
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanes.plan import FlowAccount, Snapshot, Take, plan
from lanes.policy import DEFAULT, Policy

PLAIN = Policy(quantum_cost=0.0, slice_jobs=400)


def uuid(number: int) -> UUID:
    return UUID(int=number)


def flow(
    tenant: int, number: int, *, tenant_vtime: float = 0.0, vtime: float = 0.0, weight: float = 1.0,
    cost: float = 100.0, tokens: int = 10, due: float = inf, left: int | None = None,
) -> FlowAccount:  # fmt: skip
    return FlowAccount(uuid(tenant), uuid(number), tenant_vtime, weight, vtime, cost, tokens, due, left)


@st.composite
def snapshots(draw: st.DrawFn) -> Snapshot:
    flows: list[FlowAccount] = []
    for tenant in range(draw(st.integers(0, 4))):
        vtime, weight = draw(st.floats(0, 1e6)), draw(st.sampled_from([0.5, 1.0, 2.0, 8.0]))
        flows.extend(
            FlowAccount(
                uuid(tenant),
                uuid(100 * tenant + number + 1),
                vtime,
                weight,
                flow_vtime=draw(st.floats(0, 1e6)),
                head_cost=draw(st.floats(0, 1e4)),
                head_tokens=draw(st.integers(1, 1000)),
                due_seconds=draw(st.floats(-10, 1000)),
                queued_jobs_left=draw(st.none() | st.integers(0, 50)),
            )
            for number in range(draw(st.integers(1, 4)))
        )
    return Snapshot(
        draw(st.integers(-2, 200)),
        draw(st.permutations(flows)),
        cost_per_second=draw(st.floats(0, 1e5)),
        token_budget=draw(st.none() | st.integers(-10, 20_000)),
        idle=draw(st.booleans()),
        draw=draw(st.floats(0, 1, exclude_max=True)),
    )


@given(snapshots())
def test_no_seat_and_no_job_is_given_twice(snapshot: Snapshot) -> None:
    takes = plan(snapshot, DEFAULT)

    by_id = {(account.tenant_id, account.flow_id): account for account in snapshot.flows}
    assert all(take.jobs > 0 for take in takes)
    assert len({(take.tenant_id, take.flow_id) for take in takes}) == len(takes)
    assert sum(take.jobs for take in takes) <= max(0, min(snapshot.free_seats, DEFAULT.slice_jobs))
    for take in takes:
        left = by_id[take.tenant_id, take.flow_id].queued_jobs_left
        assert left is None or take.jobs <= max(1, left)


@given(snapshots())
def test_every_seat_is_given_while_there_are_jobs_and_room(snapshot: Snapshot) -> None:
    takes = plan(replace(snapshot, token_budget=None), DEFAULT)

    lefts = [account.queued_jobs_left for account in snapshot.flows]
    jobs = inf if None in lefts else sum(max(1, left) for left in lefts if left is not None)
    seats = max(0, min(snapshot.free_seats, DEFAULT.slice_jobs))
    assert sum(take.jobs for take in takes) == min(seats, jobs)


@given(snapshots())
def test_a_slice_fits_into_the_free_kv(snapshot: Snapshot) -> None:
    takes = plan(snapshot, DEFAULT)

    tokens = {account.flow_id: account.head_tokens for account in snapshot.flows}
    used = sum(tokens[take.flow_id] * take.jobs for take in takes)
    if snapshot.token_budget is not None and used > max(0, snapshot.token_budget):
        # an idle worker takes one job whatever its size, as nobody ever has more room
        assert snapshot.idle
        assert sum(take.jobs for take in takes) == 1
    if snapshot.idle and snapshot.free_seats > 0 and snapshot.flows:
        assert takes


@given(snapshots())
def test_the_same_snapshot_gives_the_same_plan(snapshot: Snapshot) -> None:
    assert plan(snapshot, DEFAULT) == plan(snapshot, DEFAULT)


@given(st.lists(st.sampled_from([1.0, 2.0, 4.0]), min_size=2, max_size=5))
def test_equal_tenants_get_shares_in_proportion_to_their_weights(weights: list[float]) -> None:
    flows = [flow(n, 10 + n, weight=weight) for n, weight in enumerate(weights)]

    taken = Counter({take.tenant_id: take.jobs for take in plan(Snapshot(400, flows), PLAIN)})

    for n, weight in enumerate(weights):
        # one job is the grain: that much a share may differ from the exact one
        assert abs(taken[uuid(n)] - 400 * weight / sum(weights)) <= len(weights)


def test_who_was_served_least_goes_first() -> None:
    flows = [flow(1, 11, tenant_vtime=500.0), flow(2, 12, tenant_vtime=100.0)]

    assert plan(Snapshot(4, flows), PLAIN) == (Take(uuid(2), uuid(12), 4),)


COSTS = st.lists(st.floats(1.0, 3000.0), min_size=2, max_size=6)


@given(COSTS, st.floats(0, 5000), st.sampled_from([1.0, 3.0]))
def test_the_quantum_costs_its_stated_unfairness_and_no_more(
    costs: list[float], quantum: float, weight: float
) -> None:
    """From equal virtual times, two tenants differ by a quantum and a job, over the weight."""
    flows = [flow(n, 10 + n, cost=cost, weight=weight) for n, cost in enumerate(costs)]

    takes = plan(Snapshot(64, flows), replace(DEFAULT, quantum_cost=quantum))

    jobs = {take.tenant_id: take.jobs for take in takes}
    served = [jobs.get(uuid(n), 0) * cost / weight for n, cost in enumerate(costs)]
    assert max(served) - min(served) <= (quantum + max(costs)) / weight + 1e-6


@given(COSTS, st.floats(0, 5000))
def test_the_quantum_costs_as_much_among_the_flows_of_a_tenant(costs: list[float], quantum: float) -> None:
    flows = [flow(1, 10 + n, cost=cost) for n, cost in enumerate(costs)]

    takes = plan(Snapshot(64, flows), replace(DEFAULT, quantum_cost=quantum))

    jobs = {take.flow_id: take.jobs for take in takes}
    served = [jobs.get(uuid(10 + n), 0) * cost for n, cost in enumerate(costs)]
    assert max(served) - min(served) <= quantum + max(costs) + 1e-6


def test_a_quantum_keeps_the_jobs_of_a_flow_together() -> None:
    flows = [flow(tenant, 10 * tenant + n) for tenant in (1, 2) for n in (1, 2)]

    apart = plan(Snapshot(4, flows), PLAIN)
    together = plan(Snapshot(4, flows), replace(PLAIN, quantum_cost=400.0))

    assert len(apart) == 4
    assert together == (Take(uuid(1), uuid(11), 4),)


def seats_of_the_urgent(seats: int, draw: float, share: float) -> int:
    """Seats of a flow at risk beside one with endless work that was served less."""
    flows = [flow(1, 11, due=5.0, left=100, vtime=1e6), flow(1, 12), flow(2, 21)]
    snapshot = Snapshot(seats, flows, cost_per_second=100.0, draw=draw)
    takes = plan(snapshot, replace(PLAIN, at_risk_share=share))
    return sum(take.jobs for take in takes if take.flow_id == uuid(11))


@given(st.integers(1, 200), st.floats(0, 1), st.floats(0, 0.999))
def test_flows_at_risk_jump_within_their_share_of_their_tenants_seats(
    seats: int, share: float, draw: float
) -> None:
    taken = seats_of_the_urgent(seats, draw, share)

    assert taken <= ceil(share * ceil(seats / 2))
    assert taken >= int(share * (seats // 2))


@pytest.mark.parametrize("share", [0.25, 0.5])
def test_many_claims_of_one_seat_keep_to_the_share_together(share: float) -> None:
    taken = sum(seats_of_the_urgent(1, n / 100, share) for n in range(100))

    assert taken == pytest.approx(100 * share, abs=1)


def test_whoever_is_in_time_or_too_late_anyway_does_not_jump() -> None:
    # 100 cost a second for two tenants: 50 for this one, 25 for each of its flows, 4 s a job
    for due, jumps in ((1000.0, False), (15.0, True), (0.0, False), (-1.0, False)):
        flows = [flow(1, 11, due=due, left=3, vtime=1e6), flow(1, 12), flow(2, 21)]
        takes = plan(Snapshot(8, flows, cost_per_second=100.0), PLAIN)
        assert (uuid(11) in {take.flow_id for take in takes}) == jumps


def test_a_flow_at_risk_takes_nothing_from_other_tenants() -> None:
    flows = [flow(1, 11, due=5.0, left=100), flow(2, 21)]

    takes = plan(Snapshot(40, flows, cost_per_second=1.0), replace(PLAIN, at_risk_share=1.0))

    assert {take.flow_id: take.jobs for take in takes} == {uuid(11): 20, uuid(21): 20}


def refills_until_the_large_job_runs(overtake_cost: float) -> int | None:
    """A worker of 1,000 tokens, full of jobs of 100, one of which ends between two claims. A tenant
    waits there with a job of 900."""
    policy = replace(PLAIN, overtake_cost=overtake_cost)
    small_vtime, running = 0.0, 10
    for refill in range(1, 200):
        running = max(0, running - 1)
        flows = [
            flow(1, 11, tokens=900, cost=900.0),
            flow(2, 21, tokens=100, cost=100.0, tenant_vtime=small_vtime),
        ]
        for take in plan(Snapshot(10, flows, token_budget=1000 - 100 * running), policy):
            if take.tenant_id == uuid(1):
                return refill
            running += take.jobs
            small_vtime += 100.0 * take.jobs
    return None


def test_a_large_job_is_overtaken_for_a_stated_cost_and_then_gets_its_room() -> None:
    # 2,000 cost may overtake: 20 small jobs; then nine places must come free
    assert refills_until_the_large_job_runs(2000.0) == 20 + 9
    assert refills_until_the_large_job_runs(0.0) == 9
    assert refills_until_the_large_job_runs(inf) is None  # without the bound it starves


def test_a_flow_whose_head_does_not_fit_is_overtaken_within_its_tenant_too() -> None:
    flows = [flow(1, 11, tokens=900), flow(1, 12, tokens=10)]

    takes = plan(Snapshot(8, flows, token_budget=500), replace(PLAIN, overtake_cost=300.0))

    assert takes == (Take(uuid(1), uuid(12), 3),)


class Counted(FlowAccount):
    """A flow that counts how often anything of it is looked at."""

    looks = 0

    def __getattribute__(self, name: str) -> object:
        Counted.looks += 1
        return super().__getattribute__(name)


def looks_at(flows: int) -> int:
    counted = [
        Counted(uuid(n), uuid(flows + n), float(n), 1.0, 0.0, 100.0, 10, inf, None) for n in range(flows)
    ]
    Counted.looks = 0
    plan(Snapshot(32, counted, 100.0), DEFAULT)
    return Counted.looks


def test_a_plan_looks_at_its_flows_in_proportion_to_their_number() -> None:
    # sixteen times as many: a pass over all pairs would look 256 times as often
    assert 0 < looks_at(8_000) < 32 * looks_at(500)
