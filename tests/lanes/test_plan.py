"""The plan: seats are shared by weight and never promised twice."""

from __future__ import annotations

from collections import Counter
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from lanes.plan import FlowAccount, Snapshot, Take, plan
from lanes.policy import DEFAULT, Policy


def uuid(number: int) -> UUID:
    return UUID(int=number)


@st.composite
def snapshots(draw: st.DrawFn) -> Snapshot:
    flows: list[FlowAccount] = []
    for tenant in range(draw(st.integers(0, 4))):
        vtime, weight = draw(st.floats(0, 1e6)), draw(st.sampled_from([0.5, 1.0, 2.0, 8.0]))
        flows.extend(
            FlowAccount(uuid(tenant), uuid(100 * tenant + flow + 1), vtime, weight, draw(st.floats(0, 1e6)))
            for flow in range(draw(st.integers(1, 4)))
        )
    return Snapshot(draw(st.integers(-2, 200)), flows, draw(st.floats(0, 1e4)))


@given(snapshots())
def test_all_free_seats_are_given_and_none_twice(snapshot: Snapshot) -> None:
    takes = plan(snapshot, DEFAULT)

    seats = max(0, min(snapshot.free_seats, DEFAULT.slice_jobs)) if snapshot.flows else 0
    assert sum(take.jobs for take in takes) == seats
    assert all(take.jobs > 0 for take in takes)
    assert len({(take.tenant_id, take.flow_id) for take in takes}) == len(takes)
    assert {(take.tenant_id, take.flow_id) for take in takes} <= {
        (flow.tenant_id, flow.flow_id) for flow in snapshot.flows
    }


@given(snapshots())
def test_the_same_snapshot_gives_the_same_plan(snapshot: Snapshot) -> None:
    assert plan(snapshot, DEFAULT) == plan(snapshot, DEFAULT)


@given(st.lists(st.sampled_from([1.0, 2.0, 4.0]), min_size=2, max_size=5))
def test_equal_tenants_get_shares_in_proportion_to_their_weights(weights: list[float]) -> None:
    flows = [FlowAccount(uuid(n), uuid(10 + n), 0.0, weight, 0.0) for n, weight in enumerate(weights)]
    policy = Policy(slice_jobs=400)

    taken = Counter({take.tenant_id: take.jobs for take in plan(Snapshot(400, flows, 10.0), policy)})

    for n, weight in enumerate(weights):
        # one job is the quantum: that much a share may differ from the exact one
        assert abs(taken[uuid(n)] - 400 * weight / sum(weights)) <= len(weights)


def test_who_was_served_least_goes_first() -> None:
    flows = [FlowAccount(uuid(1), uuid(11), 500.0, 1, 0), FlowAccount(uuid(2), uuid(12), 100.0, 1, 0)]

    assert plan(Snapshot(4, flows, 100.0), DEFAULT) == (Take(uuid(2), uuid(12), 4),)
