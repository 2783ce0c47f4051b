"""A whole worker inside this process: an answer that is lost, and doorbells by the hundred."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import Connection, Engine, event, func
from sqlalchemy.exc import OperationalError

from db.objects import Objects
from db.sql import statement
from lanes.policy import DEFAULT
from tests.workers.conftest import ScriptedEngine, echo, until, write_bodies
from tests.world import MODEL, World
from workers.gpu.replica import Replica
from workers.gpu.settings import WorkerSettings

POLICY = replace(DEFAULT, beat_seconds=0.1, poll_seconds=60.0)


def is_statement(sql: str, name: str) -> bool:
    """By the comment with which its file begins."""
    return sql.startswith(str(statement(name)).partition("\n")[0])


@dataclass(slots=True)
class Wiretap:
    """What the worker's connections say to the database. `cut_claim` cuts the first one that claims
    once its commit is done, before the answer comes."""

    admin_url: str
    cut_claim: bool = False
    lost_jobs: int = 0
    said: list[str] = field(default_factory=list)
    claiming: set[Connection] = field(default_factory=set)

    def after(self, connection: Connection, cursor: Any, sql: str, *_: Any) -> None:
        if is_statement(sql, "claim") and cursor.rowcount:
            self.said.append("claim")
            self.lost_jobs = cursor.rowcount if self.cut_claim else self.lost_jobs
            self.claiming.add(connection)
        elif is_statement(sql, "enter_turnstile"):
            self.said.append("look")
        elif is_statement(sql, "give_back"):
            self.said.append("give back")
        elif sql.startswith("UPDATE replicas SET"):
            self.said.append("beat")

    def commit(self, connection: Connection) -> None:
        if not self.cut_claim or connection not in self.claiming:
            return
        self.cut_claim = False
        connection.connection.commit()
        driver = connection.connection.driver_connection
        assert driver is not None
        with psycopg.connect(self.admin_url, autocommit=True) as admin:
            admin.execute("SELECT pg_terminate_backend(%s, 5000)", [driver.info.backend_pid])
        self.said.append("lost")
        # A second COMMIT would be answered by the driver alone, as nothing is open any more.
        raise OperationalError("COMMIT", None, psycopg.OperationalError("the connection was cut"))


@pytest.fixture
def wiretap(database_url: str) -> Iterator[Wiretap]:
    tap = Wiretap(database_url.replace("+psycopg", ""))
    with listening("after_cursor_execute", tap.after), listening("commit", tap.commit):
        yield tap


@contextmanager
def listening(name: str, listener: Callable[..., None]) -> Iterator[None]:
    event.listen(Engine, name, listener)
    try:
        yield
    finally:
        event.remove(Engine, name, listener)


@asynccontextmanager
async def serving(database_url: str, folder: Path) -> AsyncIterator[Replica]:
    environ = {
        "FAIRLANE_DEPLOYMENT": MODEL, "FAIRLANE_ENGINE": "simulated", "DATABASE_URL": database_url,
        "REDIS_URL": "redis://127.0.0.1:1/0", "FAIRLANE_OBJECTS_URL": (folder / "objects").as_uri(),
    }  # fmt: skip
    failed = threading.Event()
    replica = Replica(WorkerSettings.from_environment(environ), ScriptedEngine(echo), POLICY, failed.set)
    replica.start()
    try:
        yield replica
    finally:
        await asyncio.to_thread(replica.drain)
    assert not failed.is_set()


async def test_a_claim_whose_answer_is_lost_goes_back_within_two_beats(
    world: World, objects: Objects, database_url: str, tmp_path: Path, wiretap: Wiretap
) -> None:
    await world.batch(await world.tenant(), 3)
    await write_bodies(world, objects)
    wiretap.cut_claim = True

    async with serving(database_url, tmp_path) as replica, asyncio.timeout(30):
        await ring_until(replica, world, lambda: "lost" in wiretap.said)
        while "give back" not in wiretap.said:
            await world.rows("SELECT")
        await ring_until(replica, world, lambda: "claim" in wiretap.said[wiretap.said.index("give back") :])
        await until(world, succeeded=3)

    lost, back = wiretap.said.index("lost"), wiretap.said.index("give back")
    assert Counter(wiretap.said[lost:back])["beat"] <= 2
    ended = await world.rows("SELECT fence, attempts FROM jobs_done")
    assert {row.attempts for row in ended} == {0}
    lost = wiretap.lost_jobs
    fences = sorted(row.fence for row in ended)
    assert fences == [1] * (3 - lost) + [3] * lost, "leased, given back, leased again"


async def ring_until(replica: Replica, world: World, condition: Callable[[], bool]) -> None:
    """Its polls are a minute apart, and a claim before its first beat as "ready" is refused."""
    while not condition():
        replica.ring()
        await world.rows("SELECT")


async def test_500_identical_doorbells_are_one_claims_worth_of_work(
    world: World, objects: Objects, database_url: str, tmp_path: Path, wiretap: Wiretap
) -> None:
    async with serving(database_url, tmp_path) as replica:
        later = func.clock_timestamp() + timedelta(hours=1)
        await world.batch(await world.tenant(), 1, not_before=later)
        await write_bodies(world, objects)
        async with asyncio.timeout(15):  # the beats that were begun while it was warming are over
            await ring_until(replica, world, lambda: wiretap.said.count("beat") > 4)
        await world.execute("UPDATE jobs SET not_before = NULL")
        wiretap.said.clear()

        for _ in range(500):
            replica.ring()
        await until(world, succeeded=1)

    assert wiretap.said.count("claim") == 1
    assert wiretap.said.count("look") <= 5, "many bells are one"
    [row] = await world.rows("SELECT fence, attempts FROM jobs_done")
    assert (row.fence, row.attempts) == (1, 0)
