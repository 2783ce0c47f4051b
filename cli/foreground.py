"""Running parts in the foreground of a terminal or a service manager."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import Console

from cli.part import Part
from cli.report import LiveReport, PlainReport
from cli.supervisor import Supervisor
from db.embedded.folders import prepare_home
from db.home_lock import HomeLock
from db.run_state import end_recorded, state_path

_LEFTOVER_GRACE_S = 3.0
_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextlib.contextmanager
def home_held(home: Path) -> Iterator[list[str]]:
    """Make the home ours alone; yields the names of parts that a crash had left and that now ended.

    Raises:
        EmbeddedError: the home belongs to another user.
        HomeBusyError: another process runs it.
    """
    prepare_home(home)
    lock = HomeLock(home)
    lock.acquire()
    try:
        yield end_recorded(state_path(home), grace_s=_LEFTOVER_GRACE_S)
    finally:
        lock.release()


def run_in_foreground(parts: Sequence[Part], *, home: Path, url: str | None, console: Console) -> None:
    """Supervise until Ctrl-C, SIGTERM or SIGHUP. A second signal ends everything without waiting.

    Raises:
        PartFailed: the platform cannot start.
    """
    with contextlib.ExitStack() as stack:
        report = stack.enter_context(LiveReport(console)) if console.is_terminal else PlainReport(console)
        supervisor = Supervisor(parts, home=home, report=report, url=url)
        for number in _STOP_SIGNALS:
            stack.callback(signal.signal, number, signal.getsignal(number))
            signal.signal(number, lambda *_: supervisor.ask_to_stop())
        supervisor.run()
