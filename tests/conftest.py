"""Fixtures that every test may use."""

from __future__ import annotations

import shutil
import signal
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from db.connect import Role, connect
from db.deployments import register_deployment
from db.embedded import EmbeddedServers
from db.objects import Objects
from migrations.run import upgrade
from tests.world import MODEL, World

_TEMPLATE = "fairlane_template"

# A run in the background of a shell begins with SIGINT ignored, and so would every process that a
# test starts and interrupts. A handler of our own is not inherited: they get the default.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def servers() -> Iterator[EmbeddedServers]:
    """One PostgreSQL and one Valkey for the whole test run."""
    # Directly below /tmp and open to pass through: as root, PostgreSQL runs under another account.
    folder = Path(tempfile.mkdtemp(prefix="fairlane-test-", dir="/tmp"))
    folder.chmod(0o711)
    try:
        with EmbeddedServers(folder / "home") as running:
            yield running
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def template_database(servers: EmbeddedServers) -> str:
    """A migrated database that others are copied from; migrating anew would cost a second a test."""
    _administer(servers, f"CREATE DATABASE {_TEMPLATE}")
    upgrade(_url(servers, _TEMPLATE))
    return _TEMPLATE


@pytest.fixture
def database_url(servers: EmbeddedServers, template_database: str) -> Iterator[str]:
    """The URL of an empty, migrated database of this test's own."""
    name = f"test_{uuid4().hex}"
    _administer(servers, f"CREATE DATABASE {name} TEMPLATE {template_database}")
    yield _url(servers, name)
    _administer(servers, f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[AsyncEngine]:
    """The same database, as the workers connect to it."""
    engine = connect(database_url, Role.ENGINE, connections=12, name="test")
    yield engine
    await engine.dispose()


@pytest.fixture
def objects(tmp_path: Path) -> Objects:
    """An empty object store."""
    return Objects((tmp_path / "objects").as_uri())


@pytest.fixture
async def world(database: AsyncEngine) -> World:
    """A database with one deployment; tenants, batches and workers come as the test asks."""
    async with database.begin() as connection:
        await register_deployment(connection, MODEL, "simulated", 4096)
    return World(database)


def _url(servers: EmbeddedServers, name: str) -> str:
    return servers.database_url.replace("/fairlane?", f"/{name}?").replace(
        "postgresql://", "postgresql+psycopg://"
    )


def _administer(servers: EmbeddedServers, command: str) -> None:
    url = servers.database_url.replace("/fairlane?", "/postgres?").replace("+psycopg", "")
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(command.encode())
