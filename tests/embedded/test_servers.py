"""The two embedded servers together: start, stop, crashes and what they leave behind."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
import redis

from db.embedded import EmbeddedError, EmbeddedServers, embedded_servers
from db.embedded.account import postgres_account
from db.embedded.folders import runtime_folder
from db.home_lock import HomeBusyError
from db.processes import spawn
from tests.eventually import eventually, runs

BASE = Path("/tmp")


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    """One home for this module; each test starts and stops the servers itself."""
    folder = Path(tempfile.mkdtemp(prefix="fairlane-test-", dir=BASE))
    folder.chmod(0o711)
    yield folder / "home"
    shutil.rmtree(folder)


@pytest.fixture(autouse=True)
def no_runtime_base(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)


def _select(servers: EmbeddedServers, statement: str) -> object:
    with psycopg.connect(servers.database_url) as connection:
        row = connection.execute(statement).fetchone()
    assert row is not None
    return row[0]


def test_both_answer_and_stop_without_a_trace(home: Path) -> None:
    with EmbeddedServers(home, max_connections=37) as servers:
        assert _select(servers, "SELECT current_setting('server_version_num')::int / 10000") == 18
        assert _select(servers, "SELECT current_setting('max_connections')") == "37"
        assert _select(servers, "SELECT current_setting('fsync')") == "on"
        assert _select(servers, "SELECT current_setting('listen_addresses')") == ""
        with redis.Redis.from_url(servers.redis_url) as client:
            assert client.ping()
            assert client.config_get("appendfsync") == {"appendfsync": "everysec"}
            assert client.config_get("maxmemory-policy") == {"maxmemory-policy": "noeviction"}
            assert client.config_get("port") == {"port": "0"}
        runtime = runtime_folder(home, BASE)
        account = postgres_account()
        assert stat.S_IMODE(runtime.stat().st_mode) == (0o710 if account else 0o700)
        assert stat.S_IMODE((runtime / "pg").stat().st_mode) == 0o700
        assert (home / "postgres").stat().st_uid == (account.uid if account else os.geteuid())
        pids = [servers.pid("postgres"), servers.pid("valkey")]
    assert not any(runs(pid) for pid in pids)
    assert not runtime.exists()


def test_data_outlives_a_restart_and_a_kill_9(home: Path) -> None:
    with EmbeddedServers(home) as servers, psycopg.connect(servers.database_url) as connection:
        connection.execute("CREATE TABLE kept (word text)")
        connection.execute("INSERT INTO kept VALUES ('clean')")
        connection.commit()
        connection.execute("INSERT INTO kept VALUES ('crash')")
        connection.commit()
        os.kill(servers.pid("postgres"), signal.SIGKILL)
    with EmbeddedServers(home) as servers:
        assert _select(servers, "SELECT array_agg(word) FROM kept") == ["clean", "crash"]


def test_one_home_runs_once(home: Path) -> None:
    with EmbeddedServers(home), pytest.raises(HomeBusyError, match=f"process {os.getpid()}"):
        EmbeddedServers(home).start()


@pytest.mark.parametrize("owner", ["nobody alive", "another process"])
def test_stale_pid_files_never_block_a_start(home: Path, owner: str) -> None:
    data, sockets = home / "postgres", runtime_folder(home, BASE) / "pg"
    with EmbeddedServers(home) as servers:
        old = servers.pid("postgres")
        recorded = (data / "postmaster.pid").read_text().splitlines()
    account = postgres_account()
    uid = account.uid if account else os.geteuid()
    # PostgreSQL itself sees through a number of another account's process, not of its own.
    with subprocess.Popen(["sleep", "600"], user=uid if account else None) as sleeper:
        number = sleeper.pid if owner == "another process" else old
        embedded_servers(home, max_connections=1, base=BASE)
        sockets.mkdir(mode=0o700)
        os.chown(sockets, uid, -1)
        for stale in (data / "postmaster.pid", sockets / ".s.PGSQL.5432.lock"):
            stale.write_text("\n".join([str(number), *recorded[1:]]) + "\n")
            os.chown(stale, uid, -1)
        try:
            with EmbeddedServers(home) as servers:
                assert _select(servers, "SELECT 1") == 1
            assert runs(sleeper.pid), "a process that is not ours was ended"
        finally:
            sleeper.kill()


def test_a_server_that_a_crash_left_is_ended_first(home: Path) -> None:
    left = []
    for server in embedded_servers(home, max_connections=20, base=BASE):
        server.prepare()
        log = home / "logs" / f"{server.name}.log"
        left.append(spawn(server.command, env=server.environment, log=log, account=server.account))
        eventually(server.ready)
    try:
        with EmbeddedServers(home) as servers:
            assert _select(servers, "SELECT 1") == 1
            assert not any(runs(process.pid) for process in left)
    finally:
        for process in left:
            process.kill()
            process.wait()


def test_kill_9_of_their_user_ends_both_within_five_seconds(home: Path) -> None:
    command = [sys.executable, "-m", "tests.dummies.servers", str(home)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as user:
        assert user.stdout is not None
        pids = [int(word) for word in user.stdout.readline().split()]
        assert all(runs(pid) for pid in pids)
        user.kill()
    eventually(lambda: not any(runs(pid) for pid in pids), within_s=5.0)


def test_a_failed_start_leaves_nothing_and_shows_the_log(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("db.embedded.postgres._SETTINGS", (("shared_buffers", "nonsense"),))
    servers = EmbeddedServers(home)
    with pytest.raises(EmbeddedError, match=r'invalid value for parameter "shared_buffers"'):
        servers.start()
    monkeypatch.undo()
    with EmbeddedServers(home) as servers:
        assert _select(servers, "SELECT 1") == 1


def test_data_of_another_major_version_is_refused(home: Path) -> None:
    version = home / "postgres" / "PG_VERSION"
    version.write_text("17\n")
    try:
        with pytest.raises(EmbeddedError, match="of PostgreSQL 17, this Fairlane runs 18"):
            EmbeddedServers(home).start()
    finally:
        version.write_text("18\n")
