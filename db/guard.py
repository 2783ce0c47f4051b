"""The guard: a small process that outlives the one it watches just long enough to clean up.

Nothing else helps against kill -9: a killed supervisor cannot end its parts, and a killed worker
cannot end its engine, which keeps the device. The guard runs in its own session, waits for one
process to end, and then ends what that process had started.

    python -m db.guard --watch PID START (--state FILE | --session PID START ...)

`--state` names a supervisor's state file (db.run_state), read only when the supervisor has ended.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from db.processes import CODE_FOLDER, Identity, Session, end_sessions
from db.readiness import READY, READY_FILE, announce
from db.run_state import read_state

# With the two seconds that SIGKILL may take, everything is gone within five.
_GRACE_S = 2.5


def guard_command(
    watch: Identity, *, sessions: Sequence[Identity] = (), state: Path | None = None
) -> tuple[str, ...]:
    """The command line of a guard, for a supervisor that starts it as one of its parts."""
    command = [sys.executable, "-m", "db.guard", "--watch", str(watch.pid), repr(watch.started)]
    if state is not None:
        command += ["--state", str(state)]
    for leader in sessions:
        command += ["--session", str(leader.pid), repr(leader.started)]
    return tuple(command)


def start_guard(watch: Identity, *, sessions: Sequence[Identity] = (), state: Path | None = None) -> Guard:
    """Start a guard that ends `sessions`, or all that `state` names, once `watch` has ended.

    A worker calls `start_guard(me, sessions=[me])`: what is left of its own session then ends.
    """
    return Guard(guard_command(watch, sessions=sessions, state=state))


class Guard:
    """A running guard. When it dies, a thread starts another, until `stop`."""

    def __init__(self, command: Sequence[str]) -> None:
        self._command = command
        self._stopping = threading.Event()
        self._process = self._spawn()
        self._thread = threading.Thread(target=self._keep, name="guard", daemon=True)
        self._thread.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def stop(self) -> None:
        """End the guard; the caller ends what it started itself."""
        self._stopping.set()
        self._process.kill()
        self._thread.join()

    def _spawn(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            self._command,
            cwd=CODE_FOLDER,
            # The guard has a readiness of its own; it must not speak for the process it watches.
            env={name: value for name, value in os.environ.items() if name != READY_FILE},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def _keep(self) -> None:
        self._process.wait()
        # The pause keeps a guard that cannot run at all from being started over and over.
        while not self._stopping.wait(0.2):
            self._process = self._spawn()
            if self._stopping.is_set():
                self._process.kill()
            self._process.wait()


def end_what_is_left(watch: Identity, sessions: Sequence[Identity], state: Path | None) -> bool:
    """End these sessions, or all that the state file of `watch` names; True when none is left."""
    if state is None:
        return end_sessions([Session(leader) for leader in sessions], grace_s=_GRACE_S)
    recorded = read_state(state)
    # A next supervisor may have replaced the file already; what it names then is not ours to end.
    if recorded is None or recorded.owner != watch:
        return True
    others = [session for session in recorded.sessions if session.leader.pid != os.getpid()]
    return end_sessions(others, grace_s=_GRACE_S)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m db.guard")
    parser.add_argument("--watch", nargs=2, metavar=("PID", "START"), required=True)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--state", type=Path)
    what.add_argument("--session", nargs=2, metavar=("PID", "START"), action="append", default=[])
    given = parser.parse_args()
    watch = Identity(int(given.watch[0]), float(given.watch[1]))
    sessions = [Identity(int(pid), float(started)) for pid, started in given.session]
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's Ctrl-C is not meant for us
    announce(READY, os.environ)
    watch.wait()
    return 0 if end_what_is_left(watch, sessions, given.state) else 1


if __name__ == "__main__":
    sys.exit(main())
