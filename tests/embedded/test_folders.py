"""The home, the run-time folder, and where the servers' programs are."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from db.embedded import EmbeddedError
from db.embedded.account import postgres_account
from db.embedded.binaries import can_run, postgres_programs
from db.embedded.folders import prepare_home, prepare_runtime, runtime_base, runtime_folder
from db.embedded.postgres import PostgresServer

root_only = pytest.mark.skipif(os.geteuid() != 0, reason="only root runs PostgreSQL under another account")


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every account can pass through, as pytest's own are not."""
    folder = Path(tempfile.mkdtemp(prefix="fairlane-test-", dir="/tmp"))
    folder.chmod(0o711)
    yield folder
    shutil.rmtree(folder)


def test_each_home_has_its_own_short_runtime_folder() -> None:
    first = runtime_folder(Path("/srv/one"), Path("/tmp"))
    assert first == runtime_folder(Path("/srv/one"), Path("/tmp"))
    assert first != runtime_folder(Path("/srv/two"), Path("/tmp"))
    assert first.name.startswith(f"fairlane-{os.geteuid()}-")
    assert len(str(first / "pg" / ".s.PGSQL.5432")) < 60


def test_xdg_runtime_dir_is_used_except_by_root() -> None:
    expected = "/tmp" if os.geteuid() == 0 else "/run/user/7"
    assert runtime_base({"XDG_RUNTIME_DIR": "/run/user/7"}) == Path(expected)
    assert runtime_base({}) == Path("/tmp")


def test_a_too_long_socket_path_is_refused_with_its_length(tmp_path: Path) -> None:
    sockets = Path("/tmp") / ("x" * 100)
    with pytest.raises(EmbeddedError, match="has 119 bytes, the system allows 107"):
        PostgresServer(tmp_path / "data", sockets, programs=tmp_path, max_connections=1, account=None)


def test_a_runtime_folder_that_is_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(EmbeddedError, match="not a folder of this user"):
        prepare_runtime(tmp_path / "link", None)


@root_only
def test_a_runtime_folder_of_somebody_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "planted").mkdir(mode=0o700)
    os.chown(tmp_path / "planted", 65533, 65533)
    with pytest.raises(EmbeddedError, match="not a folder of this user"):
        prepare_runtime(tmp_path / "planted", None)


def test_an_open_runtime_folder_of_ours_is_closed(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    prepare_runtime(tmp_path / "open", None)
    assert stat.S_IMODE((tmp_path / "open").stat().st_mode) == 0o700


def test_a_new_home_is_private(tmp_path: Path) -> None:
    prepare_home(tmp_path / "home")
    assert stat.S_IMODE((tmp_path / "home").stat().st_mode) == 0o700


@root_only
def test_a_home_that_postgres_cannot_reach_is_refused(open_folder: Path) -> None:
    closed = open_folder / "closed"
    closed.mkdir(mode=0o700)
    with pytest.raises(EmbeddedError, match="cannot enter the folders above"):
        prepare_home(closed / "home", postgres_account())


@root_only
def test_postgres_may_pass_through_the_home_but_not_list_it(open_folder: Path) -> None:
    account = postgres_account()
    assert account is not None
    prepare_home(open_folder / "home", account)
    mode = stat.S_IMODE((open_folder / "home").stat().st_mode)
    assert mode == 0o710
    assert not can_run(open_folder / "home" / "logs", account)


@root_only
def test_programs_that_postgres_cannot_reach_are_copied_once(
    open_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    account = postgres_account()
    assert account is not None
    monkeypatch.setattr("db.embedded.binaries.can_run", lambda *_: False)
    programs = postgres_programs(open_folder, account)
    assert programs.is_relative_to(open_folder)
    made = programs.stat().st_ctime_ns
    assert postgres_programs(open_folder, account) == programs
    assert programs.stat().st_ctime_ns == made
    for program in ("postgres", "initdb"):  # the second needs the libraries beside the wheel
        said = subprocess.check_output(
            [programs / program, "--version"], user=account.uid, group=account.gid, cwd="/", text=True
        )
        assert "18." in said
