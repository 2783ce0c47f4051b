"""`python -m api` as a process: it says when it is ready, and finishes what it began."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil

from db.embedded import EmbeddedServers
from db.processes import CODE_FOLDER
from tests.api.conftest import LINE, new_key, running_api
from tests.eventually import eventually


def test_sigterm_lets_an_upload_finish(servers: EmbeddedServers, api_database: str, tmp_path: Path) -> None:
    _, key = asyncio.run(new_key(api_database))
    with running_api(tmp_path, api_database, servers.redis_url) as api:
        process = psutil.Process(api.pid)
        go_on = threading.Event()
        answers: list[httpx.Response] = []

        def form() -> Iterator[bytes]:
            yield b'--B\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n'
            yield b'--B\r\nContent-Disposition: form-data; name="file"; filename="a.jsonl"\r\n\r\n'
            yield LINE * 200_000
            go_on.wait(10)
            yield LINE + b"\r\n--B--\r\n"

        def upload() -> None:
            headers = {
                "Authorization": f"Bearer {key}",
                "Content-Type": "multipart/form-data; boundary=B",
            }
            answers.append(httpx.post(f"{api.url}/v1/files", content=form(), headers=headers, timeout=30))

        client = threading.Thread(target=upload)
        client.start()
        eventually(api.stored)
        process.send_signal(signal.SIGTERM)
        eventually(lambda: not listens(api.url))
        go_on.set()
        client.join()
        assert answers[0].json()["bytes"] == 200_001 * len(LINE)
        assert process.wait(timeout=15) == 0


def listens(url: str) -> bool:
    try:
        httpx.get(f"{url}/healthz")
    except httpx.ConnectError:
        return False
    return True


def test_missing_settings_are_named() -> None:
    environ = {name: value for name, value in os.environ.items() if name not in ("DATABASE_URL", "REDIS_URL")}
    ended = subprocess.run(
        [sys.executable, "-m", "api"],
        cwd=CODE_FOLDER,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 2
    assert "DATABASE_URL and REDIS_URL must be set" in ended.stderr
