"""The oracle and PostgreSQL in lockstep, over runs that Hypothesis draws from seeds that are kept."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test
from sqlalchemy import text

from db import claims
from db.connect import Role, connect
from db.deployments import register_deployment
from db.objects import Objects
from lanes import transitions
from lanes.plan import Snapshot, Take, plan
from lanes.policy import Policy
from tests.conformance.machine import LaneMachine
from tests.conformance.play import Stage
from tests.conformance.port import Sweep
from tests.conformance.postgres import PostgresQueue
from tests.world import MODEL

QUICK = settings(
    max_examples=16, stateful_step_count=60, deadline=None, database=None, print_blob=True,
    phases=[Phase.explicit, Phase.generate],  # shrinking one of these takes minutes
    suppress_health_check=list(HealthCheck),
)  # fmt: skip
SHORT = settings(QUICK, max_examples=3, stateful_step_count=25)
LONG = settings(QUICK, max_examples=60, stateful_step_count=100)
# A seed that found a fault is added here, and stays.
SEEDS = (1, 2)
MORE_SEEDS = range(10, 20)

EVENTS = {
    "enqueue", "cancel", "claim", "claim unheard", "heartbeat", "disown", "stall", "zombie told", "complete",
    "fail", "retry", "release", "suspect", "claim suspects", "culprit", "stopped", "stale report",
    "close", "clock",
    *(f"sweep {step}" for step in Sweep if step is not Sweep.FOLD),
    *(transition.name for transition in transitions.TABLE),
}  # fmt: skip


@pytest.fixture
def stage(database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    planned: list[Snapshot] = []

    def spied(snapshot: Snapshot, policy: Policy) -> tuple[Take, ...]:
        planned.append(snapshot)
        return plan(snapshot, policy)

    monkeypatch.setattr(claims, "plan", spied)
    with asyncio.Runner() as runner:
        engine = connect(database_url, Role.ENGINE, connections=2, name="conformance")
        objects = Objects((tmp_path / "objects").as_uri())

        async def fresh() -> PostgresQueue:
            async with engine.begin() as connection:
                names = await connection.execute(
                    text(
                        "SELECT relname FROM pg_class WHERE relkind IN ('r', 'p') AND NOT relispartition"
                        " AND relnamespace = 'public'::regnamespace AND relname <> 'alembic_version'"
                        # The rest belongs to the API, and nothing here fills it.
                        " AND has_table_privilege(oid, 'TRUNCATE')"
                    )
                )
                await connection.execute(text(f"TRUNCATE {', '.join(names.scalars())} CASCADE"))
                await register_deployment(connection, MODEL, "simulated", 4096)
            return PostgresQueue(engine, objects)

        try:
            yield Stage(runner, fresh, planned)
        finally:
            runner.run(engine.dispose())


def run(stage: Stage, number: int, profile: settings) -> None:
    class Seeded(LaneMachine):
        def __init__(self) -> None:
            super().__init__(stage)

    run_state_machine_as_test(seed(number)(Seeded), settings=profile)


def assert_everything_happened(stage: Stage) -> None:
    missing = {event for event in EVENTS if not stage.events[event]}
    assert not missing, f"never happened: {sorted(missing)}; {stage.events}"


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_both_sides_agree_and_every_kind_of_event_occurs(stage: Stage) -> None:
    for number in SEEDS:
        run(stage, number, QUICK)
    assert_everything_happened(stage)


def test_both_sides_agree_for_a_short_while(stage: Stage) -> None:
    run(stage, 3, SHORT)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("number", MORE_SEEDS)
def test_both_sides_agree_for_long(stage: Stage, number: int) -> None:
    run(stage, number, LONG)
    assert_everything_happened(stage)
