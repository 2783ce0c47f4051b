"""Workers of a bench's own on servers of its own, without `fairlane up`, and batches handed to them."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from uuid import UUID, uuid4

from sqlalchemy.ext.asyncio import AsyncEngine

from bench.facts import ROOT
from db.batches import NewBatch, create_batch
from db.embedded import EmbeddedServers
from db.files import NewFile, add_file
from db.objects import Objects
from db.readiness import READY, READY_FILE

_START_SECONDS = 300
_STOP_SECONDS = 60
_LOOK_SECONDS = 0.05
_WINDOW = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class Parts:
    """Where the parts of one bench run: their servers, their folder, the model's name."""

    servers: EmbeddedServers
    folder: Path
    deployment: str

    @property
    def objects(self) -> Objects:
        return Objects(self._objects_url)

    @property
    def _objects_url(self) -> str:
        return (self.folder / "objects").as_uri()

    def start(self, module: str, environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
        """Start `python -m module`; returns when it is ready.

        Raises:
            TimeoutError: it was not in time; its output is in the folder.
        """
        ready = self.folder / f"{uuid4().hex}.ready"
        with (self.folder / f"{module}.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", module],
                cwd=ROOT,
                env={
                    **os.environ,
                    "FAIRLANE_HOME": str(self.folder),
                    "FAIRLANE_OBJECTS_URL": self._objects_url,
                    "DATABASE_URL": self.servers.database_url,
                    "REDIS_URL": self.servers.redis_url,
                    "FAIRLANE_DEPLOYMENT": self.deployment,
                    READY_FILE: str(ready),
                    **environment,
                },
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        deadline = time.monotonic() + _START_SECONDS
        while not (ready.exists() and ready.read_text() == READY):
            if process.poll() is not None or time.monotonic() > deadline:
                stop(process)
                raise TimeoutError(f"{module} was not ready in time; see {self.folder / module}.log")
            time.sleep(_LOOK_SECONDS)
        return process

    @contextlib.contextmanager
    def running(self, module: str, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
        """The part for the length of a block."""
        process = self.start(module, environment)
        try:
            yield process
        finally:
            stop(process)

    async def submit(self, database: AsyncEngine, tenant_id: UUID, data: bytes) -> UUID:
        """A batch of chats from a file of these bytes; it waits for ingest."""
        key = f"uploads/{uuid4().hex}"
        await self.objects.put(key, data)
        async with database.begin() as connection:
            file = await add_file(
                connection, tenant_id, NewFile("batch", "in.jsonl", len(data), key, _WINDOW)
            )
            batch = await create_batch(
                connection,
                tenant_id,
                NewBatch(file.id, "/v1/chat/completions", "7d", _WINDOW, None, None, "reject"),
            )
        return batch.id


def stop(process: subprocess.Popen[bytes]) -> None:
    """Let a part end in order, or kill it when it takes too long."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
