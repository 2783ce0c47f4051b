"""A whole platform as `fairlane up` runs it, in a home of its own, with its parts to kill."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Self

import psycopg
from openai import OpenAI
from openai.types import Batch

from cli.profile import read_profile
from db.embedded.folders import runtime_base
from db.embedded.postgres import PostgresServer
from db.embedded.servers import embedded_servers
from db.embedded.valkey import ValkeyServer
from db.readiness import READY
from db.run_state import PartState, read_state, state_path
from lanes.ids import Prefix, parse
from tests.eventually import eventually

ROOT = Path(__file__).parents[2]
MODEL = "SmolLM2-135M-Instruct"


class Platform:
    """Start with `with`; everything is gone afterwards."""

    def __init__(
        self, *options: str, warm_s: float = 60, environment: Mapping[str, str] | None = None
    ) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="fairlane-e2e-", dir="/tmp"))
        self._folder.chmod(0o711)  # as root, PostgreSQL runs under another account
        self.home = self._folder / "home"
        self._environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("OPENAI_")},
            "FAIRLANE_HOME": str(self.home),
            **(environment or {}),
        }
        self._options = options
        self._warm_s = warm_s

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", "cli", "up", "--port", str(_free_port()), *self._options]
        self._log = (self._folder / "up.log").open("wb")
        self._up = subprocess.Popen(
            command, cwd=ROOT, env=self._environment, stdout=self._log, stderr=subprocess.STDOUT
        )
        try:
            self.until_ready()
        except BaseException:
            print(self.logs())
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._up.send_signal(signal.SIGINT)
        try:
            self._up.wait(60)
        except subprocess.TimeoutExpired:
            self._up.kill()
        self._log.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def logs(self) -> str:
        """The end of every log, for a test that failed."""
        files = [self._folder / "up.log", *sorted(self.home.glob("logs/*.log"))]
        return "\n".join(f"== {path.name}\n{path.read_text()[-3000:]}" for path in files if path.exists())

    # -- parts ------------------------------------------------------------------------------------

    def part(self, name: str) -> PartState:
        state = read_state(state_path(self.home))
        return next(part for part in (state.parts if state else ()) if part.name == name)

    def is_ready(self, name: str) -> bool:
        try:
            return self.part(name).state == READY
        except StopIteration:
            return False

    def until_ready(self) -> None:
        def all_ready() -> bool:
            assert self._up.poll() is None, self.logs()
            return all(self.is_ready(name) for name in ("api", "maintenance", "worker"))

        eventually(all_ready, within_s=self._warm_s)

    def pid(self, name: str) -> int:
        pid = self.part(name).pid
        assert pid is not None, f"{name} does not run"
        return pid

    def kill(self, name: str, number: int = signal.SIGKILL) -> None:
        """Send a part a signal, and return once it runs again under another process number."""
        before = self.pid(name)
        os.kill(before, number)
        self.until_replaced(name, before)

    def until_replaced(self, name: str, before: int) -> None:
        """Wait until a part is ready under another process number."""
        eventually(lambda: self.is_ready(name) and self.part(name).pid != before, within_s=self._warm_s)

    @contextlib.contextmanager
    def another_worker(self, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
        """A second GPU worker beside the one of `up`, ready to claim, for the length of a block."""
        postgres, valkey = self._servers()
        ready = self._folder / "another-worker"
        ready.unlink(missing_ok=True)
        with (self._folder / "another-worker.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "workers.gpu"],
                cwd=ROOT,
                env={
                    **self._environment, "DATABASE_URL": postgres.url, "REDIS_URL": valkey.url,
                    "FAIRLANE_DEPLOYMENT": MODEL, "FAIRLANE_READY_FILE": str(ready), **environment,
                },
                stdout=log,
                stderr=log,
                start_new_session=True,
            )  # fmt: skip
        try:
            eventually(lambda: ready.exists() and ready.read_text() == READY, within_s=self._warm_s)
            yield process
        finally:
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()

    @property
    def redis_url(self) -> str:
        return self._servers()[1].url

    def jobs_held_by(self, pid: int) -> int:
        """How many jobs the worker with this process number has leased."""
        query = "SELECT count(*) FROM jobs JOIN replicas USING (boot_id) WHERE pid = %s"
        with psycopg.connect(self._servers()[0].url) as connection:
            row = connection.execute(query, [pid]).fetchone()
            assert row is not None
            return int(row[0])

    def leases_of(self, batch: Batch) -> list[int]:
        """The last fence of each ended line of a batch: one more for each lease, and each given back."""
        query = "SELECT fence FROM jobs_done WHERE batch_id = %s ORDER BY line"
        with psycopg.connect(self._servers()[0].url) as connection:
            return [fence for (fence,) in connection.execute(query, [parse(Prefix.BATCH, batch.id)])]

    def _servers(self) -> tuple[PostgresServer, ValkeyServer]:
        return embedded_servers(self.home, max_connections=1, base=runtime_base(self._environment))

    # -- the API, by the official client -----------------------------------------------------------

    @property
    def client(self) -> OpenAI:
        profile = read_profile(self.home)
        assert profile is not None
        return OpenAI(base_url=profile.base_url, api_key=profile.api_key, max_retries=8)

    def submit(self, lines: Iterable[dict[str, Any] | bytes], **options: Any) -> Batch:
        data = b"".join(
            line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n" for line in lines
        )
        client = self.client
        file = client.files.create(file=("lines.jsonl", data), purpose="batch")
        return client.batches.create(
            input_file_id=file.id, endpoint="/v1/chat/completions",
            **{"completion_window": "24h", **options},
        )  # fmt: skip

    def wait(
        self, batch: Batch, within_s: float = 120, until: Callable[[Batch], bool] | None = None
    ) -> Batch:
        """The batch once it has ended, or once `until` says so."""
        reached = until or (lambda seen: seen.status in ("completed", "failed", "expired", "cancelled"))
        deadline = time.monotonic() + within_s
        client = self.client
        seen = client.batches.retrieve(batch.id)
        while not reached(seen):
            assert time.monotonic() < deadline, f"{seen.status} {seen.request_counts}\n{self.logs()}"
            time.sleep(0.1)
            with contextlib.suppress(Exception):  # a part may be down: that is what these tests are about
                seen = client.batches.retrieve(batch.id)
        return seen

    def records(self, batch: Batch) -> Iterator[dict[str, Any]]:
        """Every record of both files."""
        for file_id in (batch.output_file_id, batch.error_file_id):
            if file_id is not None:
                for line in self.client.files.content(file_id).iter_lines():
                    yield json.loads(line)


def some_done(batch: Batch) -> bool:
    """Whether at least one line has ended; for `until`."""
    return batch.request_counts is not None and batch.request_counts.completed > 0


def chat(custom_id: str, content: str, **body: Any) -> dict[str, Any]:
    """A good line."""
    message = {"role": "user", "content": content}
    return {
        "custom_id": custom_id,
        "method": "POST",
        "url": "/v1/chat/completions",
        "body": {"model": MODEL, "messages": [message], **body},
    }


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
