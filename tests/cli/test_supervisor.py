"""Restarts and their pauses, with real processes and a clock that the test moves."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from cli.part import Part
from cli.supervised import DONE, RESTARTING, STARTING, WAITING, pause_before_restart_s
from cli.supervisor import PartFailed, Supervisor
from db.embedded.folders import prepare_home
from db.readiness import READY, READY_FILE
from db.run_state import PartState
from tests.eventually import eventually, runs


class Said:
    """A report that keeps what it was told."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.url: str | None = None

    def update(self, parts: Sequence[PartState]) -> None:
        """Not looked at here."""

    def say(self, text: str) -> None:
        self.texts.append(text)

    def all_ready(self, url: str | None) -> None:
        self.url = url


class Bench:
    """A supervisor over some parts, moved by hand."""

    def __init__(self, home: Path, *parts: Part) -> None:
        self.said = Said()
        self.supervisor = Supervisor(parts, home=home, report=self.said, url="http://here")

    def part(self, name: str) -> PartState:
        return next(part for part in self.supervisor.records.parts if part.name == name)

    def tick_until_state(self, name: str, state: str, now: float) -> None:
        def reached() -> bool:
            self.supervisor.tick(now)
            return self.part(name).state == state

        eventually(reached)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    prepare_home(tmp_path / "home")
    return tmp_path / "home"


@pytest.fixture
def benches() -> Iterator[list[Bench]]:
    """Benches whose parts are ended after the test."""
    made: list[Bench] = []
    yield made
    for bench in made:
        bench.supervisor.ask_to_stop()
        bench.supervisor.run()


def _shell(name: str, script: str, *, after: tuple[str, ...] = (), once: bool = False) -> Part:
    return Part(name, ("/bin/sh", "-c", script), dict(os.environ), after=after, once=once)


def test_pauses_double_and_stay_bounded() -> None:
    pauses = [pause_before_restart_s(deaths) for deaths in range(1, 9)]
    assert pauses == [0.5, 1, 2, 4, 8, 16, 30, 30]


def test_a_part_that_dies_is_started_again_after_growing_pauses(home: Path, benches: list[Bench]) -> None:
    bench = Bench(home, _shell("frail", "exit 3"))
    benches.append(bench)
    now = 1000.0
    for pause in (0.5, 1.0, 2.0):
        bench.tick_until_state("frail", RESTARTING, now)
        assert f"frail ended with code 3; started again in {pause:g} s" in bench.said.texts[-1]
        bench.supervisor.tick(now + pause - 0.01)
        assert bench.part("frail").state == RESTARTING
        now += pause
        bench.supervisor.tick(now)
        assert bench.part("frail").state == STARTING
    assert bench.part("frail").restarts == 3


def test_a_part_that_ran_for_a_minute_starts_again_soon(home: Path, benches: list[Bench]) -> None:
    script = f'test -e {home}/calm && {{ echo ready > "${READY_FILE}"; read never < {home}/pipe; }}; exit 1'
    os.mkfifo(home / "pipe")
    bench = Bench(home, _shell("frail", script))
    benches.append(bench)
    bench.tick_until_state("frail", RESTARTING, 0.0)
    bench.supervisor.tick(0.5)
    bench.tick_until_state("frail", RESTARTING, 0.5)
    (home / "calm").touch()
    bench.supervisor.tick(1.5)
    bench.tick_until_state("frail", READY, 1.5)
    (home / "pipe").write_text("end\n")
    bench.tick_until_state("frail", RESTARTING, 61.5)
    assert "in 0.5 s" in bench.said.texts[-1]


def test_parts_wait_for_those_before_them(home: Path, benches: list[Bench]) -> None:
    wait = f'read never < {home}/pipe; echo ready > "${READY_FILE}"; read never < {home}/pipe2'
    for name in ("pipe", "pipe2"):
        os.mkfifo(home / name)
    bench = Bench(
        home,
        _shell("database", wait),
        _shell("migrate", "exit 0", after=("database",), once=True),
        _shell("api", f'echo warming > "${READY_FILE}"; exec sleep 600', after=("migrate",)),
    )
    benches.append(bench)
    bench.supervisor.tick(0.0)
    assert [part.state for part in bench.supervisor.records.parts] == [STARTING, WAITING, WAITING]
    (home / "pipe").write_text("go\n")
    bench.tick_until_state("api", "warming", 1.0)
    assert bench.part("migrate").state == DONE
    assert bench.said.url is None
    (home / "run" / "api.ready").write_text(READY)
    bench.supervisor.tick(2.0)
    assert bench.said.url == "http://here"


def test_a_failed_first_step_ends_the_start_and_shows_its_log(home: Path) -> None:
    bench = Bench(
        home,
        _shell("database", f'echo ready > "${READY_FILE}"; exec sleep 600'),
        _shell("migrate", "echo cannot migrate; exit 7", after=("database",), once=True),
    )
    with pytest.raises(PartFailed, match=r"migrate ended with code 7(.|\n)*cannot migrate"):
        bench.supervisor.run()
    assert all(part.pid is None for part in bench.supervisor.records.parts)


def test_what_a_dead_part_left_ends_before_it_starts_again(home: Path, benches: list[Bench]) -> None:
    # A shell that leaves a child behind in its session and dies.
    bench = Bench(home, _shell("worker", f"sleep 600 & echo $! > {home}/child; exit 1"))
    benches.append(bench)
    bench.tick_until_state("worker", RESTARTING, 0.0)
    assert not runs(int((home / "child").read_text()))
