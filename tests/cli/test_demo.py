"""`fairlane demo` with the simulated engine, from nothing, and what it leaves behind."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from db.run_state import read_state, state_path
from tests.cli.command import Command, temporary_home
from tests.eventually import eventually, runs

DEMO = ("demo", "--engine", "simulated", "--questions", "4")


@pytest.fixture
def command() -> Iterator[Command]:
    """The command line for an empty home; whatever runs there at the end of the test is stopped."""
    with temporary_home() as home:
        command = Command(home)
        yield command
        command.here("down")


def _pids(home: Path) -> list[int]:
    state = read_state(state_path(home)) if home.exists() else None
    return [] if state is None else [part.pid for part in state.parts if part.pid] + [state.owner.pid]


def test_from_nothing_to_answers_to_nothing(command: Command) -> None:
    ended = command(*DEMO)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert ended.stdout.splitlines()[-1] == "demo: 4 of 4 answered, engine simulated"
    assert "simulated answer" in ended.stdout
    (output,) = (command.home / "demo").glob("*.jsonl")
    assert str(output) in ended.stdout
    assert len(output.read_text().splitlines()) == 4
    assert command("status").returncode == 3


def test_kept_it_stays_and_the_next_demo_uses_it(command: Command) -> None:
    kept = command(*DEMO, "--keep")
    assert kept.returncode == 0, kept.stdout + kept.stderr
    *_, hint, last = kept.stdout.splitlines()
    assert "`fairlane down`" in hint
    assert last == "demo: 4 of 4 answered, engine simulated"
    before = _pids(command.home)
    assert before
    again = command(*DEMO)
    assert again.stdout.splitlines()[-1] == "demo: 4 of 4 answered, engine simulated"
    assert "runs already" in again.stdout
    assert _pids(command.home) == before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_however_it_ends_nothing_stays(command: Command, number: signal.Signals) -> None:
    demo = subprocess.Popen(
        command.line(*DEMO[:-1], "1319"),
        env=command.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert demo.stdout is not None
    eventually(lambda: len(_pids(command.home)) >= 4, within_s=30)
    pids = _pids(command.home)
    demo.send_signal(number)
    said, _ = demo.communicate(timeout=60)
    if number is not signal.SIGKILL:
        assert demo.returncode == 130
        assert "Traceback" not in said
    eventually(lambda: not [pid for pid in {*pids, *_pids(command.home)} if runs(pid)], within_s=6)


def test_a_model_that_is_not_there_is_one_clear_sentence(command: Command, tmp_path: Path) -> None:
    ended = command("demo", FAIRLANE_CACHE=str(tmp_path))
    assert ended.returncode == 1
    assert "`make setup`" in ended.stderr
    assert "Traceback" not in ended.stderr
