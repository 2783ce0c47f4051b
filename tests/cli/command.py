"""`fairlane` in a process of its own, as a user runs it, and what its input files are made of."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from cli.main import app
from db.settings import DEMO_MODEL

_OURS = {"OPENAI_BASE_URL", "OPENAI_API_KEY", "DATABASE_URL", "REDIS_URL", "FAIRLANE_MODEL"}


@dataclass(frozen=True)
class Command:
    """The command line for one home."""

    home: Path

    def __call__(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.line(*arguments),
            env=self.environment(**environment),
            check=False,
            capture_output=True,
            text=True,
            timeout=90,
        )

    def here(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """The same inside this process, which spares the seconds that the imports take."""
        ended = CliRunner().invoke(app, arguments, env={**dict.fromkeys(_OURS), **self.environment()})
        return subprocess.CompletedProcess(arguments, ended.exit_code, ended.stdout, ended.stderr)

    def json(self, *arguments: str) -> Any:
        """What a command that succeeds prints with --json."""
        ended = self.here(*arguments, "--json")
        assert ended.returncode == 0, ended.stderr
        return json.loads(ended.stdout)

    def line(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "cli", *arguments]

    def environment(self, **more: str) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if name not in _OURS}
        return {**kept, "FAIRLANE_HOME": str(self.home), "NO_COLOR": "1", **more}


@contextlib.contextmanager
def temporary_home() -> Iterator[Path]:
    """A home that is not there yet, gone afterwards. As root, PostgreSQL's account must pass through."""
    folder = Path(tempfile.mkdtemp(prefix="fairlane-test-", dir="/tmp"))
    folder.chmod(0o711)
    try:
        yield folder / "home"
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def request(custom_id: str, *, max_tokens: int = 4) -> str:
    """One good line of an input file."""
    body = {"model": DEMO_MODEL, "messages": [{"role": "user", "content": "hi"}], "max_tokens": max_tokens}
    line = {"custom_id": custom_id, "method": "POST", "url": "/v1/chat/completions", "body": body}
    return json.dumps(line)


def write_lines(file: Path, lines: Sequence[str]) -> str:
    file.write_text("\n".join(lines) + "\n")
    return str(file)
