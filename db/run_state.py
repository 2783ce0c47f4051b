"""The file that says what runs for a home: written by its supervisor, read by everyone else.

The guard ends what it names when the supervisor was killed, the next start ends what a crash left,
and `fairlane status` shows it.
"""

from __future__ import annotations

import json
import signal
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from db.processes import Identity, Session, end_sessions


@dataclass(frozen=True, slots=True)
class PartState:
    """One part. `pid` and `started` are None while it does not run (db.processes.Identity)."""

    name: str
    state: str
    pid: int | None = None
    started: float | None = None
    stop_signal: int = signal.SIGTERM
    restarts: int = 0

    @property
    def session(self) -> Session | None:
        if self.pid is None or self.started is None:
            return None
        return Session(Identity(self.pid, self.started), self.stop_signal)


@dataclass(frozen=True, slots=True)
class RunState:
    owner: Identity  # the process that started the parts
    boot: str  # the machine's start: numbers of an earlier one mean nothing
    url: str | None
    parts: tuple[PartState, ...]

    @property
    def sessions(self) -> list[Session]:
        return [part.session for part in self.parts if part.session is not None]


def state_path(home: Path) -> Path:
    return home / "run" / "state.json"


def this_boot() -> str:
    """A word that changes when the machine restarts."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:  # not Linux
        return str(int(psutil.boot_time()))


def write_state(path: Path, state: RunState) -> None:
    """Replace the file in one step, so that a reader never sees half of it."""
    draft = path.with_suffix(".new")
    draft.write_text(json.dumps(asdict(state), indent=1))
    draft.replace(path)


def read_state(path: Path) -> RunState | None:
    """The recorded state; None when there is none of this boot of the machine.

    A file that cannot be read as one (cut off by a power failure, of another version) counts as
    none: it must not block a start.
    """
    try:
        raw = json.loads(path.read_text())
        if raw["boot"] != this_boot():
            return None
        parts = tuple(PartState(**part) for part in raw["parts"])
        return RunState(owner=Identity(**raw["owner"]), boot=raw["boot"], url=raw["url"], parts=parts)
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None


def end_recorded(path: Path, *, grace_s: float) -> list[str]:
    """End the parts that an earlier owner of this home left behind; returns their names.

    Call it only with the home's lock held: whoever has the lock knows that the owner is gone.
    """
    state = read_state(path)
    if state is None:
        return []
    left = [part for part in state.parts if part.session and part.session.leader.process()]
    end_sessions(state.sessions, grace_s=grace_s)
    path.unlink(missing_ok=True)
    return [part.name for part in left]
