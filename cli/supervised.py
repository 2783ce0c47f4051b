"""The life of one part: started, probed, started again with a growing pause, stopped."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Callable
from pathlib import Path

from cli.logs import keep_small
from cli.part import Part
from db.processes import Identity, Session, end_session, spawn
from db.readiness import READY, READY_FILE
from db.run_state import PartState

DONE = "done"
STOPPED = "stopped"
WAITING = "waiting"
STARTING = "starting"
STOPPING = "stopping"
RESTARTING = "restarting"
FAILED = "failed"

_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 30.0
_CALM_S = 60.0  # a part that ran this long starts again at once when it dies
_ORPHAN_GRACE_S = 2.0


def pause_before_restart_s(deaths: int) -> float:
    """Seconds to wait before a restart after `deaths` (at least 1) deaths in a row."""
    return float(min(_PAUSE_S * 2 ** (deaths - 1), _LONGEST_PAUSE_S))


class Supervised:
    """One part and its process. Times are seconds of one monotonic clock, given by the caller."""

    def __init__(self, part: Part, home: Path) -> None:
        self.part = part
        self.state = WAITING
        self.was_ready = False
        self.restarts = 0
        self.restart_at: float | None = None
        self.log = home / "logs" / f"{part.name}.log"
        self._ready_file = home / "run" / f"{part.name}.ready"
        self._process: subprocess.Popen[bytes] | None = None
        self._identity: Identity | None = None
        self._started_at = 0.0
        self._deaths = 0

    @property
    def running(self) -> bool:
        return self._process is not None

    @property
    def record(self) -> PartState:
        identity = self._identity
        return PartState(
            name=self.part.name,
            state=self.state,
            pid=identity.pid if identity else None,
            started=identity.started if identity else None,
            stop_signal=self.part.stop_signal,
            restarts=self.restarts,
        )

    def start(self, now: float, publish: Callable[[], None]) -> None:
        """Start the process; the state is "starting" afterwards.

        `publish` is called when `record` tells of the process and before the process does anything.

        Raises:
            EmbeddedError: an embedded server cannot be prepared.
        """
        self.part.prepare()
        self._ready_file.unlink(missing_ok=True)
        keep_small(self.log)
        environment = {**self.part.environment, READY_FILE: str(self._ready_file)}

        def record(identity: Identity) -> None:
            self._identity = identity
            self._started_at = now
            self.restart_at = None
            self.state = STARTING
            publish()

        self._process = spawn(
            self.part.command, env=environment, log=self.log, account=self.part.account, record=record
        )

    def look(self) -> None:
        """Learn the present state of the running process from its probe or its file."""
        before = self.state
        if self.part.probe is None:
            with contextlib.suppress(FileNotFoundError):
                self.state = self._ready_file.read_text().strip() or self.state
        elif self.state == STARTING and self.part.probe():
            self.state = READY
        if self.state == READY and before != READY:
            self.was_ready = True
            self.part.on_ready()

    def ended(self) -> int | None:
        """The exit code when the process has ended by itself; what it left behind ends too."""
        if self._process is None or self._process.poll() is None:
            return None
        code = self._process.returncode
        self._end_session(_ORPHAN_GRACE_S, hurry=lambda: False)
        return code

    def finish(self) -> None:
        """A part that runs once has done its work."""
        self.state = DONE
        self.was_ready = True
        self.part.on_ready()

    def plan_restart(self, now: float) -> float:
        """After a death: when to start again; returns the pause in seconds."""
        self._deaths = 1 if now - self._started_at >= _CALM_S else self._deaths + 1
        pause = pause_before_restart_s(self._deaths)
        self.restart_at = now + pause
        self.restarts += 1
        self.state = RESTARTING
        return pause

    def stop(self, *, hurry: Callable[[], bool]) -> None:
        """Ask it to end, wait, then make it end."""
        if self._process is not None:
            self._end_session(self.part.stop_wait_s, hurry=hurry)
        if self.state not in (FAILED, DONE):
            self.state = STOPPED
        self.restart_at = None

    def _end_session(self, grace_s: float, hurry: Callable[[], bool]) -> None:
        if self._identity is not None:
            end_session(Session(self._identity, self.part.stop_signal), grace_s=grace_s, hurry=hurry)
        if self._process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout=1.0)
        self._process = None
        self._identity = None
        self._ready_file.unlink(missing_ok=True)
