"""A whole Fairlane with the simulated engine, for the commands that talk to one."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator

import pytest

from tests.cli.command import Command, temporary_home
from tests.eventually import eventually


@pytest.fixture(scope="session")
def fairlane() -> Iterator[Command]:
    """The command line of a platform that runs."""
    with temporary_home() as home:
        command = Command(home)
        up = subprocess.Popen(
            command.line("up", "--engine", "simulated"),
            env=command.environment(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            eventually(lambda: up.poll() is not None or command("status").returncode == 0, within_s=60)
            assert up.poll() is None, "up ended"
            yield command
        finally:
            up.send_signal(signal.SIGTERM)
            up.wait(timeout=60)
