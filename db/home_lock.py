"""One supervisor for one home: an advisory lock that the kernel frees when its holder ends."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path


class HomeBusyError(RuntimeError):
    """Another process runs this home; `pid` is its number (0: it has not written it yet)."""

    def __init__(self, home: Path, pid: int) -> None:
        super().__init__(
            f"Fairlane already runs on {home} as process {pid}; "
            "stop it with `fairlane down`, or set FAIRLANE_HOME to another folder"
        )
        self.pid = pid


class HomeLock:
    """Held from `acquire` to `release`. Processes started meanwhile do not inherit it."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._file: int | None = None

    def acquire(self) -> None:
        """Take the lock at once.

        Raises:
            HomeBusyError: another process holds it.
        """
        descriptor = os.open(lock_path(self._home), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise HomeBusyError(self._home, recorded_holder(self._home)) from None
        os.ftruncate(descriptor, 0)
        os.write(descriptor, str(os.getpid()).encode())
        self._file = descriptor

    def release(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


def lock_path(home: Path) -> Path:
    return home / "run" / "lock"


def recorded_holder(home: Path) -> int:
    """The process number in the lock file; 0 when there is none."""
    try:
        return int(lock_path(home).read_text() or 0)
    except FileNotFoundError:
        return 0
