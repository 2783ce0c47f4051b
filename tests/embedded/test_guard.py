"""The guard of a worker, and the rule that nobody else's process ever gets a signal."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from db.embedded.folders import prepare_home
from db.guard import end_what_is_left, start_guard
from db.processes import Identity, Session, end_session, spawn
from db.readiness import READY, READY_FILE
from db.run_state import PartState, RunState, end_recorded, read_state, state_path, this_boot, write_state
from tests.eventually import eventually, runs


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A stubborn worker with a stubborn child and a guard of its own."""
    order, ready = tmp_path / "order", tmp_path / "ready"
    command = [sys.executable, "-m", "tests.dummies.part", "worker", "--order", str(order)]
    environment = {**os.environ, READY_FILE: str(ready)}
    process = spawn([*command, "--stubborn", "--guarded"], env=environment, log=tmp_path / "log")
    eventually(lambda: ready.exists() and ready.read_text() == READY)
    yield process
    process.kill()
    process.wait()


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    """A process that is not ours to end: it leads its own session."""
    with subprocess.Popen(["sleep", "600"], start_new_session=True) as process:
        yield process
        process.kill()


def _child(tmp_path: Path) -> int:
    return int((tmp_path / "order.child").read_text())


def _guard_of(worker: subprocess.Popen[bytes]) -> psutil.Process:
    found: list[psutil.Process] = []

    def look() -> bool:
        found[:] = [child for child in psutil.Process(worker.pid).children() if "db.guard" in child.cmdline()]
        return bool(found)

    eventually(look)
    return found[0]


def test_kill_9_of_a_worker_ends_its_session_within_five_seconds(
    tmp_path: Path, worker: subprocess.Popen[bytes]
) -> None:
    child, guard = _child(tmp_path), _guard_of(worker)
    assert os.getsid(child) == worker.pid
    assert os.getsid(guard.pid) == guard.pid
    worker.kill()
    eventually(lambda: not runs(child) and not runs(guard.pid), within_s=5.0)


def test_a_worker_replaces_its_dead_guard(tmp_path: Path, worker: subprocess.Popen[bytes]) -> None:
    first = _guard_of(worker)
    first.kill()
    eventually(lambda: not runs(first.pid))
    second = _guard_of(worker)
    assert second.pid != first.pid
    worker.kill()
    eventually(lambda: not runs(_child(tmp_path)), within_s=5.0)


def test_a_guard_does_not_speak_for_the_process_it_watches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(READY_FILE, str(tmp_path / "ready"))
    guard = start_guard(Identity.of_this_process())
    try:
        assert READY_FILE not in psutil.Process(guard.pid).environ()
    finally:
        guard.stop()


def test_ending_a_session_reaches_children_that_ignore_sigterm(
    tmp_path: Path, worker: subprocess.Popen[bytes]
) -> None:
    child, guard = _child(tmp_path), _guard_of(worker)
    leader = Identity.of(worker.pid)
    assert leader is not None
    begun = time.monotonic()
    assert end_session(Session(leader), grace_s=0.5)
    assert time.monotonic() - begun < 5.0
    assert not any(runs(pid) for pid in (worker.pid, child, guard.pid))


def test_a_number_with_another_start_time_gets_no_signal(sleeper: subprocess.Popen[bytes]) -> None:
    now = Identity.of(sleeper.pid)
    assert now is not None
    earlier = replace(now, started=now.started - 1.0)
    assert earlier.process() is None
    assert earlier.wait(timeout_s=0.0)
    assert end_session(Session(earlier), grace_s=0.0)
    assert runs(sleeper.pid)
    assert end_session(Session(now), grace_s=5.0)
    assert not runs(sleeper.pid)


def test_waiting_has_an_end(sleeper: subprocess.Popen[bytes]) -> None:
    identity = Identity.of(sleeper.pid)
    assert identity is not None
    assert not identity.wait(timeout_s=0.05)
    sleeper.kill()
    assert identity.wait(timeout_s=10.0)  # though this test has not taken note of its end


def test_recorded_leftovers_of_another_start_or_boot_are_left_alone(
    tmp_path: Path, sleeper: subprocess.Popen[bytes]
) -> None:
    prepare_home(tmp_path)
    now = Identity.of(sleeper.pid)
    assert now is not None
    path = state_path(tmp_path)
    part = PartState("worker", READY, pid=now.pid, started=now.started - 1.0)
    state = RunState(owner=now, boot=this_boot(), url=None, parts=(part,))
    write_state(path, state)
    assert read_state(path) == state
    assert end_recorded(path, grace_s=1.0) == []
    right = replace(part, started=now.started)
    write_state(path, replace(state, boot="earlier", parts=(right,)))
    assert end_recorded(path, grace_s=1.0) == []
    assert runs(sleeper.pid)
    write_state(path, replace(state, parts=(right,)))
    assert end_recorded(path, grace_s=5.0) == ["worker"]
    assert not runs(sleeper.pid)


def test_a_guard_leaves_the_parts_of_a_next_supervisor_alone(
    tmp_path: Path, sleeper: subprocess.Popen[bytes]
) -> None:
    prepare_home(tmp_path)
    now = Identity.of(sleeper.pid)
    assert now is not None
    part = PartState("worker", READY, pid=now.pid, started=now.started)
    mine, other = Identity(1, 1.0), Identity(2, 2.0)
    path = state_path(tmp_path)
    write_state(path, RunState(owner=other, boot=this_boot(), url=None, parts=(part,)))
    assert end_what_is_left(mine, (), path)
    assert runs(sleeper.pid)
    assert end_what_is_left(other, (), path)
    assert not runs(sleeper.pid)


def test_a_process_does_nothing_before_it_is_recorded(tmp_path: Path) -> None:
    def refuse(identity: Identity) -> None:
        raise OSError(f"cannot record {identity.pid}")

    ran = tmp_path / "ran"
    command = ("/bin/sh", "-c", f"touch {ran}")
    with pytest.raises(OSError, match="cannot record") as refused:
        spawn(command, env=os.environ, log=tmp_path / "log", record=refuse)
    eventually(lambda: not runs(int(str(refused.value).split()[-1])))
    assert not ran.exists()

    recorded: list[Identity] = []
    process = spawn(command, env=os.environ, log=tmp_path / "log", record=recorded.append)
    assert process.wait() == 0
    assert ran.exists()
    assert [identity.pid for identity in recorded] == [process.pid]


@pytest.mark.parametrize("text", ["", '{"boot": 1}', "[]", "cut of"])
def test_a_damaged_state_file_counts_as_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "state.json").write_text(text)
    assert read_state(tmp_path / "state.json") is None
