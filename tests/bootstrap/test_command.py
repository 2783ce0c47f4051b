"""`python3 -m bootstrap` itself, in a copy of the repository's set-up files."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bootstrap import plan, stamp
from bootstrap.machine import this_machine

ROOT = Path(__file__).parents[2]


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """Enough of the repository to plan a set-up, and nothing installed."""
    for folder in ("bootstrap", "constraints"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "db").mkdir()
    for file in ("pyproject.toml", "db/__init__.py", "db/settings.py"):
        shutil.copy(ROOT / file, tmp_path / file)
    return tmp_path


def bootstrap(copy: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PIP_INDEX_URL": "http://127.0.0.1:9/simple", "PIP_CONFIG_FILE": "/dev/null"}
    environment.pop("PYTHONPATH", None)
    return subprocess.run(
        [sys.executable, "-m", "bootstrap", *arguments],
        cwd=copy,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_without_an_index_it_says_so_and_leaves_nothing(copy: Path) -> None:
    ran = bootstrap(copy, "--engine", "simulated")
    assert ran.returncode == 2
    assert ran.stdout == ""
    assert len(ran.stderr.splitlines()) == 1
    assert "package index http://127.0.0.1:9/simple cannot be reached" in ran.stderr
    assert not (copy / ".venv").exists()


def test_a_finished_set_up_asks_no_network(copy: Path) -> None:
    """The index is unreachable here, so the silence shows that nobody asked it."""
    venv = copy / ".venv"
    (venv / "bin").mkdir(parents=True)
    (venv / "bin/python").symlink_to(sys.executable)
    wanted = plan.parts(copy, this_machine().build, vllm=False, tools=False)
    stamp.write(venv, {part.name: part.fingerprint for part in wanted})
    ran = bootstrap(copy, "--engine", "simulated")
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")


def test_two_at_once_take_turns(copy: Path) -> None:
    fcntl = pytest.importorskip("fcntl")
    folder = os.open(copy, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        second = subprocess.Popen(
            [sys.executable, "-m", "bootstrap", "--engine", "simulated"],
            cwd=copy,
            env={**os.environ, "PIP_INDEX_URL": "http://127.0.0.1:9/simple", "PIP_CONFIG_FILE": "/dev/null"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        with second:
            assert second.stdout is not None
            assert "waiting" in second.stdout.readline()
            assert second.poll() is None
            os.close(folder)
            folder = -1
            assert second.wait(timeout=60) == 2  # its turn came, and it found no index
    finally:
        if folder >= 0:
            os.close(folder)
