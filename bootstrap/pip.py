"""Run the pip of `.venv` quietly; its words are shown only when it fails."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

# Settings of the user's pip that would install somewhere else than into `.venv`.
ELSEWHERE = ("PIP_USER", "PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_REQUIRE_VIRTUALENV", "PIP_DRY_RUN")
QUIETLY = ("--quiet", "--disable-pip-version-check", "--no-input", "--progress-bar", "off")
KEPT_LINES = 12


class PipFailed(Exception):
    """pip ended with an error; the text holds the last lines that it printed."""


class Pip:
    def __init__(self, venv: Path, constraints: Path, lock: int) -> None:
        self.venv = venv
        self.constraints = constraints
        self.lock = lock  # a pip that outlives us keeps the lock until it ends
        self.scratch = venv / "tmp"  # on the disk that was checked, not in a small /tmp

    def clean(self) -> None:
        """Remove what pip, or one that was killed, left in its scratch folder."""
        shutil.rmtree(self.scratch, ignore_errors=True)

    def install(self, *arguments: str) -> None:
        self.run("install", "--constraint", str(self.constraints), *arguments)

    def run(self, command: str, *arguments: str) -> None:
        """Run one pip command to its end.

        Raises:
            PipFailed: it ended with an error.
        """
        self.scratch.mkdir(exist_ok=True)
        environment = {name: value for name, value in os.environ.items() if name not in ELSEWHERE}
        environment["TMPDIR"] = str(self.scratch)
        ran = subprocess.run(
            [str(self.venv / "bin/python"), "-I", "-m", "pip", command, *QUIETLY, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env=environment,
            pass_fds=[self.lock],
            check=False,
        )
        if ran.returncode:
            raise PipFailed(last_words(ran.stdout.splitlines()))


def last_words(lines: Sequence[str]) -> str:
    """The end of pip's output, without its remarks on folders that do not exist."""
    return "\n".join([line for line in lines if "is ignored: it is neither" not in line][-KEPT_LINES:])
