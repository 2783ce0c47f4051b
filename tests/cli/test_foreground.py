"""A whole `up` with dummy parts in its own process: signals, kill -9, and the commands beside it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from db.readiness import READY
from db.run_state import RunState, read_state, state_path
from tests.eventually import eventually, runs


class Up:
    """A running dummy `up`."""

    def __init__(self, folder: Path, *names: str) -> None:
        self.home = folder / "home"
        self.order = folder / "order"
        self.output = folder / "output"
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.dummies.up", str(self.home), str(self.order), *names],
            stdout=self.output.open("w"),
            stderr=subprocess.STDOUT,
        )

    def state(self) -> RunState | None:
        return read_state(state_path(self.home)) if self.home.exists() else None

    def wait_ready(self) -> dict[str, int]:
        """The process number of each part, once all are ready."""
        eventually(self._all_ready)
        state = self.state()
        assert state is not None
        return {part.name: part.pid or 0 for part in state.parts}

    def _all_ready(self) -> bool:
        assert self.process.poll() is None, self.output.read_text()
        state = self.state()
        return (
            state is not None
            and state.owner.pid == self.process.pid
            and all(part.state == READY for part in state.parts)
        )

    def child(self) -> int:
        """The process number of the stubborn part's child."""
        return int(self.order.with_suffix(".child").read_text())


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder for homes; whatever runs in one at the end of the test is ended."""
    with tempfile.TemporaryDirectory(prefix="fairlane-test-") as name:
        path = Path(name)
        yield path
        for home in path.glob("**/home"):
            state = read_state(state_path(home))
            if state is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(state.owner.pid, signal.SIGKILL)
        eventually(lambda: not _processes_naming(name))


def _processes_naming(text: str) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.NoSuchProcess):
            if any(text in argument for argument in process.cmdline()):
                found.append(process)
    return found


def _fairlane(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "cli", *arguments],
        check=False,  # tests look at the exit code
        env={**os.environ, "FAIRLANE_HOME": str(home)},
        capture_output=True,
        text=True,
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_drains_in_reverse_order(folder: Path, number: signal.Signals) -> None:
    up = Up(folder, "database", "worker", "api")
    pids = up.wait_ready()
    up.process.send_signal(number)
    assert up.process.wait(timeout=20) == 0
    assert up.order.read_text().split() == ["api", "worker", "database"]
    assert not any(runs(pid) for pid in pids.values())


def test_a_second_signal_ends_everything_at_once(folder: Path) -> None:
    up = Up(folder, "stubborn")  # it would be given 60 s to end by itself
    up.wait_ready()
    child = up.child()
    up.process.send_signal(signal.SIGINT)
    eventually(lambda: (state := up.state()) is not None and state.parts[-1].state == "stopping")
    up.process.send_signal(signal.SIGINT)
    assert up.process.wait(timeout=10) == 0
    assert not runs(child)


def test_kill_9_of_up_leaves_nothing_after_five_seconds(folder: Path) -> None:
    up = Up(folder, "worker", "stubborn")
    pids = up.wait_ready()
    everyone = [*pids.values(), up.child()]
    assert len(everyone) == 4
    up.process.kill()  # and its parent, this test, takes no note of its end yet
    eventually(lambda: not any(runs(pid) for pid in everyone), within_s=5.0)


def test_the_next_start_ends_what_up_and_guard_left(folder: Path) -> None:
    up = Up(folder, "worker", "stubborn")
    pids = up.wait_ready()
    left = [pids["worker"], pids["stubborn"], up.child()]
    up.process.send_signal(signal.SIGSTOP)  # it must not notice that the guard dies
    os.kill(pids["guard"], signal.SIGKILL)
    up.process.kill()
    up.process.wait()
    assert all(runs(pid) for pid in left)
    again = Up(folder, "worker")
    again.wait_ready()
    assert not any(runs(pid) for pid in left)
    assert "left: worker stubborn" in again.output.read_text()


def test_a_dead_guard_is_replaced(folder: Path) -> None:
    up = Up(folder, "worker")
    pids = up.wait_ready()
    os.kill(pids["guard"], signal.SIGKILL)
    eventually(lambda: (state := up.state()) is not None and state.parts[0].restarts == 1)
    again = up.wait_ready()
    assert again["guard"] != pids["guard"]
    assert again["worker"] == pids["worker"]
    up.process.kill()
    up.process.wait()
    eventually(lambda: not runs(again["worker"]), within_s=5.0)


def test_one_home_runs_once(folder: Path) -> None:
    up = Up(folder, "worker")
    pids = up.wait_ready()
    second = Up(folder, "worker")
    assert second.process.wait(timeout=20) == 1
    assert f"process {up.process.pid}" in second.output.read_text()
    assert all(runs(pid) for pid in pids.values())


def test_status_and_down(folder: Path) -> None:
    up = Up(folder, "worker")
    pids = up.wait_ready()
    shown = _fairlane(up.home, "status", "--json")
    assert shown.returncode == 0
    status = json.loads(shown.stdout)
    assert status["pid"] == up.process.pid
    assert status["url"] == "http://127.0.0.1:1/v1"
    assert {part["part"]: part["pid"] for part in status["parts"]} == pids
    assert all(0 <= part["uptime_s"] < 60 for part in status["parts"])
    assert "worker" in _fairlane(up.home, "status").stdout

    assert _fairlane(up.home, "down").returncode == 0
    assert up.process.wait(timeout=1) == 0
    assert not any(runs(pid) for pid in pids.values())
    assert up.order.read_text().split() == ["worker"]

    assert _fairlane(up.home, "status", "--json").returncode == 3
    again = _fairlane(up.home, "down")
    assert (again.returncode, again.stdout) == (0, "Fairlane does not run here\n")
