"""The private PostgreSQL: made once, then run in the foreground for whoever supervises it.

It listens on a Unix socket only, inside a folder that only we can enter; everyone who gets there
is trusted. It keeps `fsync` on: an answered job is durable.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path

import psycopg

from db.embedded.binaries import POSTGRES_MAJOR
from db.embedded.errors import EmbeddedError
from db.embedded.folders import own_folder
from db.embedded.leftovers import servers_of
from db.processes import Account, end_processes

DATABASE = "fairlane"
SUPERUSER = "postgres"

_PROGRAMS = frozenset({"postgres", "initdb"})
_SOCKET = ".s.PGSQL.5432"
_SOCKET_PATH_BYTES = 107  # sockaddr_un.sun_path less its final zero (unix(7)); 103 on macOS
_STOP_S = 20.0
_SETTINGS = (
    ("listen_addresses", ""),
    ("unix_socket_permissions", "0700"),
    ("fsync", "on"),
    ("wal_level", "minimal"),  # no standby servers here; COPY into a new table writes less
    ("max_wal_senders", "0"),
    ("max_wal_size", "1GB"),
    ("shared_buffers", "128MB"),
    ("jit", "off"),  # short statements: compiling them costs more than it saves
    ("autovacuum_naptime", "15s"),  # a queue makes dead rows quickly
    ("timezone", "UTC"),
    ("log_timezone", "UTC"),
    ("logging_collector", "off"),  # what it says goes to the supervisor's log file
)


class PostgresServer:
    """How to prepare, run, probe and stop PostgreSQL on one data folder."""

    name = "postgres"
    stop_signal = signal.SIGINT  # "fast": ends sessions, writes a checkpoint
    stop_wait_s = _STOP_S

    def __init__(
        self,
        data: Path,
        socket_folder: Path,
        *,
        programs: Path,
        max_connections: int,
        account: Account | None,
    ) -> None:
        """Raises EmbeddedError when the socket's path would be too long."""
        _check_socket_path(socket_folder / _SOCKET)
        self.account = account
        self._data = data
        self._draft = data.with_name(f"{data.name}.new")
        self._sockets = socket_folder
        self._programs = programs
        self._max_connections = max_connections

    @property
    def url(self) -> str:
        return f"postgresql://{SUPERUSER}@/{DATABASE}?host={self._sockets}"

    @property
    def environment(self) -> Mapping[str, str]:
        return {"LC_ALL": "C", "TZ": "UTC"}

    @property
    def command(self) -> tuple[str, ...]:
        values = (
            *_SETTINGS,
            ("unix_socket_directories", str(self._sockets)),
            ("max_connections", str(self._max_connections)),
        )
        options = [word for name, value in values for word in ("-c", f"{name}={value}")]
        return (str(self._programs / "postgres"), "-D", str(self._data), *options)

    def prepare(self) -> None:
        """Before each start: end a server that a crash left, clear stale files, create on first use.

        Raises:
            EmbeddedError: the data is of another major version, or cannot be created, or a left
                server does not end.
        """
        self._check_version()
        self._end_leftovers()
        (self._data / "postmaster.pid").unlink(missing_ok=True)
        own_folder(self._sockets, self.account)
        for name in (_SOCKET, f"{_SOCKET}.lock"):
            (self._sockets / name).unlink(missing_ok=True)
        if not self._data.exists():
            self._create()

    def ready(self) -> bool:
        """Whether it accepts a connection to our database."""
        try:
            # A probe by a supervisor that has no event loop: the one synchronous connection.
            psycopg.connect(self.url, connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True

    def _check_version(self) -> None:
        recorded = self._data / "PG_VERSION"
        if not self._data.exists():
            return
        major = recorded.read_text().strip() if recorded.exists() else "unknown"
        if major != str(POSTGRES_MAJOR):
            raise EmbeddedError(
                f"the data in {self._data} is of PostgreSQL {major}, this Fairlane runs {POSTGRES_MAJOR}; "
                "upgrade it with pg_upgrade, or move the folder away to start empty"
            )

    def _end_leftovers(self) -> None:
        left = servers_of(self._data, _PROGRAMS) + servers_of(self._draft, _PROGRAMS)
        # A living postmaster has the folder among its arguments; it ends its own children. What
        # outlived its postmaster is found by its work folder and keeps the shared memory busy.
        masters = [process for process in left if str(self._data) in process.cmdline()]
        orphans = [process for process in left if process not in masters]
        if not end_processes(masters, signal.SIGINT, grace_s=_STOP_S) or not end_processes(
            orphans, signal.SIGQUIT, grace_s=5.0
        ):
            numbers = ", ".join(str(process.pid) for process in left)
            raise EmbeddedError(f"an earlier PostgreSQL on {self._data} does not end (processes {numbers})")

    def _create(self) -> None:
        """Initialise beside the final place and rename: an interruption never leaves half of it."""
        shutil.rmtree(self._draft, ignore_errors=True)
        own_folder(self._draft, self.account)
        folder = str(self._draft)
        # fmt: off
        self._run(
            "initdb", "-D", folder, "--no-sync", "--no-instructions", f"--username={SUPERUSER}",
            "--auth-local=trust", "--auth-host=reject", "--encoding=UTF8",
            "--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8",
        )
        # fmt: on
        said = self._run(
            "postgres",
            "--single",
            "-D",
            folder,
            "-c",
            "fsync=off",
            SUPERUSER,
            text=f"CREATE DATABASE {DATABASE}\n",
        )  # fmt: skip
        if "ERROR" in said:
            raise EmbeddedError(f"the database cannot be created: {said}")
        self._run("initdb", "-D", folder, "--sync-only")
        self._draft.rename(self._data)

    def _run(self, program: str, *arguments: str, text: str | None = None) -> str:
        account = self.account
        ended = subprocess.run(
            [str(self._programs / program), *arguments],
            input=text,
            stdin=subprocess.DEVNULL if text is None else None,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,  # the text of the failure goes into our own error
            env=dict(self.environment),
            cwd="/",
            start_new_session=True,
            user=account.uid if account else None,
            group=account.gid if account else None,
            extra_groups=[] if account else None,
        )
        if ended.returncode != 0:
            raise EmbeddedError(f"{program} failed ({ended.returncode}): {ended.stdout.strip()[-1000:]}")
        return ended.stdout


def _check_socket_path(path: Path) -> None:
    length = len(str(path).encode())
    if length > _SOCKET_PATH_BYTES:
        raise EmbeddedError(
            f"the socket path {path} has {length} bytes, the system allows {_SOCKET_PATH_BYTES}; "
            "unset XDG_RUNTIME_DIR or set it to a shorter folder"
        )
