"""The private Valkey: what Redis keeps for us may be lost, so it is saved once a second."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from pathlib import Path

import redis

from db.embedded.errors import EmbeddedError
from db.embedded.folders import own_folder
from db.embedded.leftovers import servers_of
from db.processes import Account, end_processes

_PROGRAMS = frozenset({"valkey-server"})


class ValkeyServer:
    """How to prepare, run, probe and stop Valkey on one data folder."""

    name = "valkey"
    stop_signal = signal.SIGTERM
    stop_wait_s = 5.0
    account: Account | None = None  # runs as whoever we are

    def __init__(self, data: Path, socket: Path, *, program: Path) -> None:
        self._data = data
        self._socket = socket
        self._program = program

    @property
    def url(self) -> str:
        return f"unix://{self._socket}"

    @property
    def environment(self) -> Mapping[str, str]:
        return {"LC_ALL": "C", "TZ": "UTC"}

    @property
    def command(self) -> tuple[str, ...]:
        # fmt: off
        return (
            str(self._program), "--port", "0", "--unixsocket", str(self._socket), "--unixsocketperm", "700",
            "--dir", str(self._data), "--appendonly", "yes", "--appendfsync", "everysec", "--save", "",
            "--maxmemory-policy", "noeviction", "--daemonize", "no",
        )
        # fmt: on

    def prepare(self) -> None:
        """Before each start: end a server that a crash left; remove its socket.

        Raises:
            EmbeddedError: a left server does not end.
        """
        own_folder(self._data, None)
        left = servers_of(self._data, _PROGRAMS)
        if not end_processes(left, self.stop_signal, grace_s=self.stop_wait_s):
            raise EmbeddedError(f"an earlier Valkey on {self._data} does not end (process {left[0].pid})")
        self._socket.unlink(missing_ok=True)

    def ready(self) -> bool:
        """Whether it answers PING."""
        client = redis.Redis.from_url(self.url, socket_timeout=1.0)
        try:
            return bool(client.ping())
        except redis.RedisError:
            return False
        finally:
            client.close()
