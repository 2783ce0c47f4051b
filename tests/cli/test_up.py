"""What `fairlane up` decides before it starts anything."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cli.logs import keep_small, last_lines
from cli.main import app
from cli.platform import Plan, platform_parts
from cli.ports import free_port
from cli.profile import Profile, profile_path, read_profile, write_profile

PROFILE = Profile(base_url="http://127.0.0.1:8000/v1", api_key="fl_a b")


@pytest.fixture(autouse=True)
def open_umask() -> Iterator[None]:
    """`up` narrows this process's umask; every test begins and ends with a wide one."""
    before = os.umask(0o022)
    yield
    os.umask(before)


def _plan(home: Path, host: str = "127.0.0.1") -> Plan:
    return Plan(
        home=home,
        host=host,
        port=8123,
        database_url="postgresql://x@/y",
        redis_url="redis://z",
        engine="simulated",
        model=None,
        deployment="toy",
    )


def test_a_busy_port_moves_to_the_next_free_one() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        found = free_port("127.0.0.1", port)
        assert found > port
    assert free_port("127.0.0.1", port) == port


def test_an_address_of_another_machine_is_refused() -> None:
    with pytest.raises(OSError, match="assign"):
        free_port("192.0.2.1", 8000)


def test_all_interfaces_are_reached_through_loopback(tmp_path: Path) -> None:
    assert _plan(tmp_path, "0.0.0.0").base_url == "http://127.0.0.1:8123/v1"
    assert _plan(tmp_path, "::").base_url == "http://[::1]:8123/v1"


def test_given_servers_are_used_and_none_is_started(tmp_path: Path) -> None:
    environ = {"PATH": "/bin", "DATABASE_URL": "overwritten"}
    parts = platform_parts(_plan(tmp_path), environ=environ, servers=(), migrated=lambda: None)
    assert [part.name for part in parts] == ["guard", "migrate", "maintenance", "worker", "api"]
    worker = next(part for part in parts if part.name == "worker")
    assert worker.environment["DATABASE_URL"] == "postgresql://x@/y"
    assert worker.environment["FAIRLANE_ENGINE"] == "simulated"
    assert worker.environment["FAIRLANE_DEPLOYMENT"] == "toy"
    assert worker.environment["FAIRLANE_OBJECTS_URL"] == (tmp_path / "objects").as_uri()
    assert "FAIRLANE_MODEL" not in worker.environment
    assert worker.after == ("migrate",)


@pytest.mark.parametrize("name", ["DATABASE_URL", "REDIS_URL"])
def test_one_url_without_the_other_is_an_error(tmp_path: Path, name: str) -> None:
    given = {"DATABASE_URL": "", "REDIS_URL": "", name: "redis://h", "FAIRLANE_HOME": str(tmp_path / "home")}
    ended = CliRunner().invoke(app, ["up", "--engine", "simulated"], env=given)
    assert ended.exit_code == 1
    assert "set both DATABASE_URL and REDIS_URL" in ended.stderr


def test_the_profile_is_private(tmp_path: Path) -> None:
    assert read_profile(tmp_path) is None
    write_profile(tmp_path, PROFILE)
    assert stat.S_IMODE(profile_path(tmp_path).stat().st_mode) == 0o600
    assert read_profile(tmp_path) == PROFILE


def test_env_prints_what_a_shell_can_take(tmp_path: Path) -> None:
    environment = {"FAIRLANE_HOME": str(tmp_path)}
    missing = CliRunner().invoke(app, ["env"], env=environment)
    assert missing.exit_code == 3
    write_profile(tmp_path, PROFILE)
    printed = CliRunner().invoke(app, ["env"], env=environment).stdout
    script = f'{printed}\necho "$OPENAI_BASE_URL|$OPENAI_API_KEY"'
    shown = subprocess.run(["/bin/sh", "-c", script], capture_output=True, text=True, check=True)
    assert shown.stdout == "http://127.0.0.1:8000/v1|fl_a b\n"


def test_a_large_log_is_moved_while_its_writer_goes_on(tmp_path: Path) -> None:
    log = tmp_path / "part.log"
    with log.open("ab", buffering=0) as writer:
        writer.write(b"old\n" * 100)
        keep_small(log, limit_bytes=1000)
        assert log.stat().st_size == 400
        keep_small(log, limit_bytes=300)
        writer.write(b"new\n")
    assert log.read_bytes() == b"new\n"
    assert (tmp_path / "part.log.1").read_bytes() == b"old\n" * 100
    assert last_lines(log) == "new"


def test_without_a_model_it_says_how_to_get_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRLANE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("FAIRLANE_CACHE", str(tmp_path / "empty"))
    monkeypatch.delenv("FAIRLANE_MODEL", raising=False)

    result = CliRunner().invoke(app, ["up", "--engine", "vllm"])

    assert result.exit_code == 1
    assert "make setup" in result.output
    assert not (tmp_path / "home").exists(), "nothing was started"
