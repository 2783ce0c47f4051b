"""One part of a running platform as a value: how to start it, probe it and stop it."""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from db.embedded.servers import Server
from db.processes import Account


def _nothing() -> None:
    return None


@dataclass(frozen=True, slots=True)
class Part:
    """A process to keep running, or, with `once`, to run to its end before others start.

    Without a `probe` the part tells its state itself, through db.readiness.
    """

    name: str
    command: tuple[str, ...]
    environment: Mapping[str, str]
    after: tuple[str, ...] = ()  # parts that must have been ready before
    once: bool = False
    prepare: Callable[[], None] = field(default=_nothing)  # before each start
    probe: Callable[[], bool] | None = None
    on_ready: Callable[[], None] = field(default=_nothing)  # each time that it becomes ready
    stop_signal: int = signal.SIGTERM
    stop_wait_s: float = 10.0
    account: Account | None = None


def server_part(server: Server, *, after: tuple[str, ...]) -> Part:
    """An embedded server as a part."""
    return Part(
        name=server.name,
        command=server.command,
        environment=server.environment,
        after=after,
        prepare=server.prepare,
        probe=server.ready,
        stop_signal=server.stop_signal,
        stop_wait_s=server.stop_wait_s,
        account=server.account,
    )
