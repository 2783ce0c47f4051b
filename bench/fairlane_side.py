"""The whole platform as a bench runs it, and Fairlane's side of p2_throughput: files handed in by the
official client."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from uuid import UUID

import httpx
from openai import OpenAI
from sqlalchemy import text

from bench.facts import ROOT
from bench.sample import Sample
from cli.profile import read_profile
from db.connect import Role, connect
from db.embedded import EmbeddedServers
from lanes.ids import Prefix, parse
from workers.engines.vllm.settings import VllmSettings

_START_SECONDS = 300
_BATCH_SECONDS = 1800
_STOP_SECONDS = 60
_POLL_SECONDS = 1.0
_LOOK_SECONDS = 5.0  # seldom: whoever looks takes time from the engine, and `run_batch` has no onlooker
_TERMINAL = {"completed", "failed", "expired", "cancelled"}

# `started_at` is when a request entered the engine, `finished_at` when its record was committed.
_MEASURE = text("""
SELECT count(*) FILTER (WHERE status_code = 200),
       coalesce(sum(output_tokens), 0),
       extract(epoch FROM max(finished_at) - min(started_at))
FROM jobs_done WHERE batch_id = :batch_id
""")


def run_fairlane(
    settings: VllmSettings, inputs: Sequence[Path], folder: Path, servers: EmbeddedServers
) -> list[Sample]:
    """Start the platform, run every file in turn, stop it; one sample a file.

    Raises:
        ValueError: a batch did not complete, or an answer is missing or is an error.
        TimeoutError: the platform did not start in time; its output is in `folder`/fairlane.log.
    """
    with platform(_with_model(settings), folder, servers) as client:
        return [_run_batch(client, path, servers.database_url) for path in inputs]


def _with_model(settings: VllmSettings) -> tuple[str, ...]:
    return ("--model", settings.model, "--name", settings.served_name)


@contextlib.contextmanager
def platform(
    options: Sequence[str],
    folder: Path,
    servers: EmbeddedServers,
    environment: Mapping[str, str] | None = None,
) -> Iterator[OpenAI]:
    """`fairlane up` with these options, and a client of it, for the length of a block.

    Raises:
        TimeoutError: it did not start in time; its output is in `folder`/fairlane.log.
    """
    home = folder / "home"
    environ = {
        **os.environ,
        **(environment or {}),
        "FAIRLANE_HOME": str(home),
        "DATABASE_URL": servers.database_url,
        "REDIS_URL": servers.redis_url,
    }
    command = [sys.executable, "-m", "cli", "up", *options]
    with (folder / "fairlane.log").open("ab") as log:
        # In a session of its own, so that an interrupt of the bench reaches `up` once, from here.
        up = subprocess.Popen(command, cwd=ROOT, env=environ, stdout=log, stderr=log, start_new_session=True)
    try:
        yield _client(home, up)
    finally:
        up.send_signal(signal.SIGINT)
        try:
            up.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            up.kill()
            up.wait()


def _client(home: Path, up: subprocess.Popen[bytes]) -> OpenAI:
    """A client of the platform, once its API answers."""
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        if up.poll() is not None:
            raise TimeoutError(f"`fairlane up` ended with status {up.returncode}; see fairlane.log")
        profile = read_profile(home)
        if profile is not None:
            with contextlib.suppress(httpx.TransportError):
                if httpx.get(f"{profile.base_url.removesuffix('/v1')}/readyz").status_code == 200:
                    return OpenAI(base_url=profile.base_url, api_key=profile.api_key)
        time.sleep(_POLL_SECONDS)
    raise TimeoutError("the API was not ready in time; see fairlane.log")


def _run_batch(client: OpenAI, path: Path, database_url: str) -> Sample:
    lines = len(path.read_text().splitlines())
    file = client.files.create(file=path, purpose="batch")
    batch = client.batches.create(
        input_file_id=file.id, endpoint="/v1/chat/completions", completion_window="24h"
    )
    deadline = time.monotonic() + _BATCH_SECONDS
    while batch.status not in _TERMINAL:
        if time.monotonic() > deadline:
            raise TimeoutError(f"batch {batch.id} is still {batch.status}")
        time.sleep(_LOOK_SECONDS)
        batch = client.batches.retrieve(batch.id)
    batch_id = parse(Prefix.BATCH, batch.id)
    if batch.status != "completed" or batch_id is None:
        raise ValueError(f"batch {batch.id} ended {batch.status}: {batch.errors}")
    answered, tokens, seconds = asyncio.run(_measured(database_url, batch_id))
    if answered != lines:
        raise ValueError(f"Fairlane answered {answered} of {lines} lines of {path.name}")
    return Sample(tokens, seconds)


async def _measured(database_url: str, batch_id: UUID) -> tuple[int, int, float]:
    """Answers with status 200, output tokens, and seconds from first start to last record."""
    engine = connect(database_url, Role.ENGINE, connections=1, name="bench")
    try:
        async with engine.connect() as connection:
            row = (await connection.execute(_MEASURE, {"batch_id": batch_id})).one()
            return int(row[0]), int(row[1]), float(row[2])
    finally:
        await engine.dispose()
