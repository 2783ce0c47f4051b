"""One API process for all tests here, on a real database, Valkey and folder; tenants apart by test."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import httpx
import psycopg
import pytest
from openai import OpenAI
from sqlalchemy.ext.asyncio import AsyncEngine

from api.app import create_app
from api.services import Services
from api.watch import Watch
from db.connect import Role, connect
from db.embedded import EmbeddedServers
from db.keys import create_key, create_tenant
from db.objects import Objects
from db.processes import CODE_FOLDER
from db.redis.broker import celery_app
from db.redis.doorbell import Doorbell
from migrations.run import upgrade
from tests.eventually import eventually

LINE = b'{"custom_id":"a","method":"POST","url":"/v1/chat/completions","body":{"model":"m"}}\n'


@dataclass(frozen=True)
class Running:
    """The API process of the tests and what stands behind it."""

    url: str
    pid: int
    database_url: str
    redis_url: str
    objects: Path
    log: Path

    def sql(self, query: str, *values: object, **named: object) -> list[tuple[Any, ...]]:
        """Run a statement as a superuser, whom no row-level security binds; with %s or with %(name)s."""
        with psycopg.connect(self.database_url, autocommit=True) as connection:
            cursor = connection.execute(query.encode(), named or values)
            return cursor.fetchall() if cursor.description else []

    def stored(self) -> set[str]:
        """The names of all files below the object store, unfinished ones too."""
        return {path.name for path in self.objects.rglob("*") if path.is_file()}


@dataclass(frozen=True)
class Tenant:
    id: UUID
    key: str
    client: OpenAI
    http: httpx.Client  # the same key without the official client, for what that would not send

    def upload(self, content: bytes = LINE, name: str = "in.jsonl") -> str:
        return self.client.files.create(file=(name, content), purpose="batch").id

    def batch(self, file_id: str | None = None) -> str:
        return self.client.batches.create(
            input_file_id=file_id or self.upload(),
            endpoint="/v1/chat/completions",
            completion_window="24h",
        ).id


@pytest.fixture(scope="session")
def api_database(servers: EmbeddedServers) -> str:
    """The plain URL of a migrated database for the API's tests."""
    with psycopg.connect(servers.database_url, autocommit=True) as connection:
        connection.execute("CREATE DATABASE api_tests")
    url = servers.database_url.replace("/fairlane?", "/api_tests?")
    upgrade(url)
    return url


@contextmanager
def running_api(folder: Path, database_url: str, redis_url: str) -> Iterator[Running]:
    """`python -m api` until the block ends."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    ready, log, objects = folder / "ready", folder / "api.log", folder / "objects"
    environ = os.environ | {
        "FAIRLANE_HOME": str(folder),
        "DATABASE_URL": database_url,
        "REDIS_URL": redis_url,
        "FAIRLANE_OBJECTS_URL": objects.as_uri(),
        "FAIRLANE_PORT": str(port),
        "FAIRLANE_READY_FILE": str(ready),
    }
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "api"], cwd=CODE_FOLDER, env=environ, stdout=output, stderr=output
        )
    try:
        eventually(lambda: ready.exists() or process.poll() is not None, within_s=30)
        assert process.poll() is None, log.read_text()
        url = f"http://127.0.0.1:{port}"
        yield Running(url, process.pid, database_url, redis_url, objects, log)
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
        process.wait()


@pytest.fixture(scope="session")
def running(
    servers: EmbeddedServers, api_database: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Running]:
    with running_api(tmp_path_factory.mktemp("api"), api_database, servers.redis_url) as api:
        yield api


async def new_key(database_url: str, expires_in: timedelta | None = None) -> tuple[UUID, str]:
    """A new tenant and its key."""
    engine = connect(with_psycopg(database_url), Role.ENGINE, connections=1, name="test")
    async with engine.begin() as connection:
        tenant_id = await create_tenant(connection, uuid4().hex)
        key = await create_key(connection, tenant_id, "test", expires_in)
    await engine.dispose()
    return tenant_id, key


@pytest.fixture
def new_tenant(running: Running) -> Iterator[Callable[[], Tenant]]:
    """Makes tenants that nothing else knows."""
    opened: list[Tenant] = []

    def make() -> Tenant:
        tenant_id, key = asyncio.run(new_key(running.database_url))
        http = httpx.Client(base_url=running.url, headers={"Authorization": f"Bearer {key}"})
        client = OpenAI(base_url=f"{running.url}/v1", api_key=key, max_retries=0)
        opened.append(Tenant(tenant_id, key, client, http))
        return opened[-1]

    yield make
    for tenant in opened:
        tenant.client.close()
        tenant.http.close()


@pytest.fixture
def tenant(new_tenant: Callable[[], Tenant]) -> Tenant:
    return new_tenant()


@asynccontextmanager
async def app_in_this_process(
    database_url: str, objects: Path, *, max_file_bytes: int = 1000, peer: str = "127.0.0.1", key: str = ""
) -> AsyncIterator[httpx.AsyncClient]:
    """The application without a server, for what the shared process is not set up for."""
    engine: AsyncEngine = connect(with_psycopg(database_url), Role.API, connections=2, name="test")
    # Port 1 of this machine: nobody listens.
    doorbell = Doorbell(celery_app("redis://127.0.0.1:1/0", "test"))
    app = create_app(Services(engine, Objects(objects.as_uri()), doorbell, max_file_bytes, Watch(engine)))
    transport = httpx.ASGITransport(app, client=(peer, 1))
    headers = {"Authorization": f"Bearer {key}"}
    async with httpx.AsyncClient(transport=transport, base_url="http://api", headers=headers) as client:
        yield client
    await engine.dispose()


def with_psycopg(url: str) -> str:
    return url.replace("postgresql://", "postgresql+psycopg://")


def error_of(answer: httpx.Response) -> dict[str, Any]:
    """The error object, after checking that it has the one shape that all have."""
    body = answer.json()
    assert set(body) == {"error"}
    error: dict[str, Any] = body["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["message"]
    assert error["type"]
    assert error["code"]
    assert answer.headers["x-request-id"].startswith("req_")
    assert int(answer.headers["openai-processing-ms"]) >= 0
    return error
