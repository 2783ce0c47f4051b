"""Both embedded servers of one home, as values to supervise or started for the caller."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from db.embedded.account import postgres_account
from db.embedded.binaries import postgres_programs, valkey_program
from db.embedded.errors import EmbeddedError
from db.embedded.folders import prepare_home, prepare_runtime, runtime_base, runtime_folder
from db.embedded.postgres import PostgresServer
from db.embedded.valkey import ValkeyServer
from db.guard import Guard, start_guard
from db.home_lock import HomeLock
from db.processes import Account, Identity, Session, end_session, spawn
from db.run_state import PartState, RunState, end_recorded, state_path, this_boot, write_state

_START_S = 30.0
_LOOK_EVERY_S = 0.02
_LEFTOVER_GRACE_S = 3.0


class Server(Protocol):
    """How to run one server; what `fairlane up` and `EmbeddedServers` need to know of it."""

    @property
    def name(self) -> str: ...
    @property
    def stop_signal(self) -> int: ...
    @property
    def stop_wait_s(self) -> float: ...
    @property
    def account(self) -> Account | None: ...
    @property
    def url(self) -> str: ...
    @property
    def command(self) -> tuple[str, ...]: ...
    @property
    def environment(self) -> Mapping[str, str]: ...
    def prepare(self) -> None: ...
    def ready(self) -> bool: ...


def embedded_servers(home: Path, *, max_connections: int, base: Path) -> tuple[PostgresServer, ValkeyServer]:
    """The two servers of a home, nothing started. Makes the home and the run-time folder.

    Raises:
        EmbeddedError: a folder or a wheel does not allow it; the text says what to do.
    """
    account = postgres_account()
    prepare_home(home, account)
    runtime = runtime_folder(home, base)
    prepare_runtime(runtime, account)
    postgres = PostgresServer(
        home / "postgres",
        runtime / "pg",
        programs=postgres_programs(home, account),
        max_connections=max_connections,
        account=account,
    )
    return postgres, ValkeyServer(home / "valkey", runtime / "valkey.sock", program=valkey_program())


class EmbeddedServers:
    """The two servers, run by this process without restarts: for tests, benches and tools.

    A guard ends them when this process is killed. `fairlane up` supervises the same two servers
    itself. A home runs once at a time, whoever runs it.
    """

    def __init__(self, home: Path, *, max_connections: int = 100) -> None:
        self.home = home.resolve()
        self._base = runtime_base(os.environ)
        self._max_connections = max_connections
        self._lock = HomeLock(self.home)
        self._running: list[tuple[Server, subprocess.Popen[bytes]]] = []
        self._guard: Guard | None = None
        self.database_url = ""
        self.redis_url = ""

    def start(self) -> None:
        """Start both and return when both answer; `database_url` and `redis_url` are set then.

        Raises:
            EmbeddedError: one of them cannot start; nothing is left running.
            HomeBusyError: another process runs this home.
        """
        postgres, valkey = embedded_servers(self.home, max_connections=self._max_connections, base=self._base)
        self._lock.acquire()
        try:
            self._start((valkey, postgres))
        except BaseException:
            self.stop()
            raise
        self.database_url, self.redis_url = postgres.url, valkey.url

    def stop(self) -> None:
        """Stop both, the database last, and free the home."""
        for server, process in self._running:
            _stop(server, process)
        self._running.clear()
        if self._guard is not None:
            self._guard.stop()
            self._guard = None
        state_path(self.home).unlink(missing_ok=True)
        shutil.rmtree(runtime_folder(self.home, self._base), ignore_errors=True)
        self._lock.release()

    def pid(self, name: str) -> int:
        """The process number of "postgres" or "valkey", for tests that kill it."""
        return next(process.pid for server, process in self._running if server.name == name)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _start(self, servers: tuple[Server, ...]) -> None:
        path = state_path(self.home)
        end_recorded(path, grace_s=_LEFTOVER_GRACE_S)
        owner = Identity.of_this_process()
        self._guard = start_guard(owner, state=path)
        parts: list[PartState] = []
        for server in servers:
            server.prepare()

            def record(identity: Identity, server: Server = server) -> None:
                parts.append(_record_of(server, identity))
                write_state(path, RunState(owner=owner, boot=this_boot(), url=None, parts=tuple(parts)))

            process = spawn(
                server.command,
                env=server.environment,
                log=self._log(server),
                account=server.account,
                record=record,
            )
            self._running.append((server, process))
        deadline = time.monotonic() + _START_S
        for server, process in self._running:
            self._wait(server, process, deadline)

    def _wait(self, server: Server, process: subprocess.Popen[bytes], deadline: float) -> None:
        while not server.ready():
            if process.poll() is not None or time.monotonic() > deadline:
                log = self._log(server)
                said = log.read_text(errors="replace").strip()[-500:]
                raise EmbeddedError(f"{server.name} does not start; the end of {log}:\n{said}")
            time.sleep(_LOOK_EVERY_S)

    def _log(self, server: Server) -> Path:
        return self.home / "logs" / f"{server.name}.log"


def _record_of(server: Server, identity: Identity) -> PartState:
    return PartState(
        server.name,
        "running",
        pid=identity.pid,
        started=identity.started,
        stop_signal=server.stop_signal,
    )


def _stop(server: Server, process: subprocess.Popen[bytes]) -> None:
    identity = Identity.of(process.pid) if process.poll() is None else None
    if identity is not None:
        end_session(Session(identity, server.stop_signal), grace_s=server.stop_wait_s)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=1.0)
