"""The heartbeat against a real database: both views of who holds what come together, and a worker that
cannot write stops its own work."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from uuid import UUID

import psycopg
import pytest

from db.replicas import ReplicaState, beat
from lanes.job import Lease
from lanes.policy import DEFAULT
from tests.eventually import eventually
from tests.world import World
from workers.gpu.heartbeat import HeartbeatThread, Standing

POLICY = replace(DEFAULT, beat_seconds=0.05, lease_seconds=3.0)


class Watched:
    """A worker that remembers what its heartbeat told it."""

    def __init__(self, boot_id: UUID, leases: frozenset[Lease] = frozenset()) -> None:
        self.leases = leases
        self.boot_id = boot_id
        self.beats = 0
        self.lost: set[Lease] = set()
        self.stopped: set[Lease] = set()
        self.disowned: dict[Lease, int] = {}  # at which beat
        self.lost_everything = threading.Event()

    def standing(self) -> Standing:
        self.beats += 1  # asked once before each beat, and once after one that was answered
        return Standing(self.boot_id, ReplicaState.READY, 8, self.leases)

    def stop_jobs(self, leases: frozenset[Lease]) -> None:
        self.stopped |= leases

    def lose_jobs(self, leases: frozenset[Lease]) -> None:
        self.lost |= leases

    def disown(self, leases: frozenset[Lease]) -> None:
        for lease in leases:
            self.disowned.setdefault(lease, self.beats)

    def lose_everything(self, boot_id: UUID) -> None:
        assert boot_id == self.boot_id
        self.lost_everything.set()


Start = Callable[[Watched], None]


@pytest.fixture
def start(database_url: str) -> Iterator[Start]:
    threads: list[HeartbeatThread] = []

    def begin(watched: Watched) -> None:
        thread = HeartbeatThread(database_url, watched, POLICY, on_failure=lambda: None)
        threads.append(thread)
        thread.start()

    yield begin
    for thread in threads:
        thread.stop()


async def test_a_lease_that_the_worker_does_not_know_goes_back_within_two_beats(
    world: World, start: Start
) -> None:
    """As after a claim whose answer was lost on the way."""
    await world.batch(await world.tenant(), 2)
    boot = await world.worker()
    known, unknown = await world.claim(boot, 2)
    watched = Watched(boot, frozenset({known.lease}))

    start(watched)

    await wait_until(lambda: bool(watched.disowned))
    assert set(watched.disowned) == {unknown.lease}
    assert watched.disowned[unknown.lease] == 2 * 2, "the second beat"
    assert watched.lost == set()


async def test_it_tells_what_was_lost_and_what_must_stop(world: World, start: Start) -> None:
    await world.batch(await world.tenant(), 2)
    boot = await world.worker()
    first, second = await world.claim(boot, 2)
    await world.execute(
        "UPDATE jobs SET state = 'cancelling', ending = 'expired' WHERE id = :id", id=first.lease.job_id
    )
    await world.execute("UPDATE jobs SET fence = fence + 1 WHERE id = :id", id=second.lease.job_id)
    watched = Watched(boot, frozenset({first.lease, second.lease}))

    start(watched)

    await wait_until(lambda: bool(watched.lost and watched.stopped))
    assert (watched.lost, watched.stopped) == ({second.lease}, {first.lease})


async def test_a_worker_that_cannot_beat_for_a_lease_stops_its_own_work(world: World, start: Start) -> None:
    """The database is there and answers, and yet nothing can be written."""
    boot = await world.worker()
    watched = Watched(boot)
    url = world.database.url.render_as_string(hide_password=False).replace("+psycopg", "")
    start(watched)
    await wait_until(lambda: watched.beats > 4)
    assert not watched.lost_everything.is_set()

    with psycopg.connect(url) as blocker:
        blocker.execute("LOCK TABLE replicas IN ACCESS EXCLUSIVE MODE")
        await wait_until(watched.lost_everything.is_set)


async def test_a_worker_whose_lease_was_taken_learns_it_at_the_next_beat(world: World, start: Start) -> None:
    boot = await world.worker()
    await world.execute("UPDATE replicas SET state = 'lost', stopped_at = clock_timestamp()")
    watched = Watched(boot)
    start(watched)
    await wait_until(watched.lost_everything.is_set)


async def wait_until(condition: Callable[[], object]) -> None:
    """The heartbeat has a thread of its own; this one's loop stays free."""
    await asyncio.to_thread(eventually, condition)


async def test_a_late_beat_does_not_take_a_state_back(world: World) -> None:
    boot = await world.worker()
    for told in (ReplicaState.READY, ReplicaState.WARMING):
        assert (await beat(world.database, boot, told, 8, POLICY)).alive
    [replica] = await world.rows("SELECT state FROM replicas")
    assert replica.state == "ready"
    for told in (ReplicaState.DRAINING, ReplicaState.READY):
        assert (await beat(world.database, boot, told, 8, POLICY)).alive
    [replica] = await world.rows("SELECT state FROM replicas")
    assert replica.state == "draining"
