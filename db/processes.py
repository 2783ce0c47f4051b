"""Processes that we started: who they are, and how to end them and nothing else.

A process number is used again after its process ends, so a number alone never gets a signal from
us: it is compared with the recorded start time first.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

# A shell that waits for one line and then becomes the command: same number, same start time.
_HELD = 'read -r go && exec "$@" </dev/null'

# Packages such as `api` and `workers` have everyday names. Parts run from the folder that this
# code was loaded from, so a user's own `api` folder is never run by mistake.
CODE_FOLDER = Path(__file__).resolve().parents[1]

_LOOK_EVERY_S = 0.05
_LOOK_RARELY_S = 5.0  # where the kernel tells us of an end anyway
_KILL_WAIT_S = 2.0
_ORPHAN_GRACE_S = 2.0
_SAME_START_S = 0.05  # Linux counts start times in hundredths of a second


def _no() -> bool:
    return False


def _nothing(_: Identity) -> None:
    return None


@dataclass(frozen=True, slots=True)
class Account:
    """Another account to run a process under; only root can."""

    name: str
    uid: int
    gid: int


@dataclass(frozen=True, slots=True)
class Identity:
    """One process for good: its number, and its start in seconds since the machine started.

    Counted from the machine's start and not as a date, because the clock may be set meanwhile.
    """

    pid: int
    started: float

    @classmethod
    def of_this_process(cls) -> Identity:
        return cls(os.getpid(), _start_of(os.getpid()))

    @classmethod
    def of(cls, pid: int) -> Identity | None:
        """The identity of the process that has this number now; None when there is none."""
        try:
            return cls(pid, _start_of(pid))
        except psutil.NoSuchProcess:
            return None

    def process(self) -> psutil.Process | None:
        """The process while it runs; None once it has ended, also when its number lives on."""
        try:
            process = psutil.Process(self.pid)
            same = abs(_start_of(self.pid) - self.started) < _SAME_START_S
            return process if same and _runs(process) else None
        except psutil.NoSuchProcess:
            return None

    def wait(self, timeout_s: float | None = None) -> bool:
        """Return True when the process has ended, False after the timeout. It need not be our child.

        psutil would wait longer, until its parent has taken note of the end; some never do.
        """
        end_at = None if timeout_s is None else time.monotonic() + timeout_s
        with _ending_of(self.pid) as ending:
            while self.process() is not None:
                left_s = _LOOK_RARELY_S if end_at is None else end_at - time.monotonic()
                if left_s <= 0:
                    return False
                ending(min(left_s, _LOOK_RARELY_S))
        return True


@dataclass(frozen=True, slots=True)
class Session:
    """A process that leads its own session, and the signal that asks it to end tidily."""

    leader: Identity
    stop_signal: int = signal.SIGTERM


def spawn(
    command: Sequence[str],
    *,
    env: Mapping[str, str],
    log: Path,
    account: Account | None = None,
    record: Callable[[Identity], None] = _nothing,
) -> subprocess.Popen[bytes]:
    """Start a process in its own session, its output appended to `log`.

    It does nothing before `record` has returned, and ends when we are killed before that: there
    is no moment at which it runs unrecorded, so that nobody could end it after a crash.
    """
    with log.open("ab") as output:
        process = subprocess.Popen(
            ["/bin/sh", "-c", _HELD, "sh", *command],
            env=dict(env),
            cwd="/" if account else CODE_FOLDER,
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            umask=0o077,
            user=account.uid if account else None,
            group=account.gid if account else None,
            extra_groups=[] if account else None,
        )
    assert process.stdin is not None
    with process.stdin as gate:
        record(Identity(process.pid, _start_of(process.pid)))
        with contextlib.suppress(BrokenPipeError):  # killed already; the caller sees its end
            gate.write(b"go\n")
    return process


def end_session(session: Session, *, grace_s: float, hurry: Callable[[], bool] = _no) -> bool:
    """`end_sessions` for one."""
    return end_sessions([session], grace_s=grace_s, hurry=hurry)


def end_sessions(sessions: Sequence[Session], *, grace_s: float, hurry: Callable[[], bool] = _no) -> bool:
    """End these processes and all that they started; True when none is left.

    A leader gets its own stop signal and may end its children itself. What is left of a session
    after its leader ended gets SIGTERM, and at most two seconds. After `grace_s` seconds, or
    once `hurry()` is true, everything gets SIGKILL; that may take two seconds more.
    """
    endings = [_Ending(session, kill_at=time.monotonic() + grace_s) for session in sessions]
    give_up_at = time.monotonic() + grace_s + _KILL_WAIT_S
    while True:
        now = time.monotonic()
        left = [ending for ending in endings if not ending.step(now, kill=hurry())]
        if not left or now >= give_up_at:
            return not left
        time.sleep(_LOOK_EVERY_S)


def end_processes(processes: Iterable[psutil.Process], stop_signal: int, *, grace_s: float) -> bool:
    """Signal these processes, wait, then SIGKILL what is left; True when none is left."""
    running = [process for process in processes if _runs(process)]
    for process in running:
        _signal(process, stop_signal)
    kill_at = time.monotonic() + grace_s
    while running and time.monotonic() < kill_at + _KILL_WAIT_S:
        if time.monotonic() >= kill_at:
            for process in running:
                _signal(process, signal.SIGKILL)
        time.sleep(_LOOK_EVERY_S)
        running = [process for process in running if _runs(process)]
    return not running


class _Ending:
    """How far the end of one session is."""

    def __init__(self, session: Session, *, kill_at: float) -> None:
        self._session = session
        self._kill_at = kill_at
        self._led = True
        self._told: set[int] = set()
        # All that was ever seen: a descendant in another session is not found after its parent ends.
        self._members: dict[int, psutil.Process] = {}

    def step(self, now: float, *, kill: bool) -> bool:
        """Signal whatever is due a signal; True when nothing of the session runs any more."""
        leader = self._session.leader
        self._members.update((process.pid, process) for process in _members(leader))
        running = [process for process in self._members.values() if _runs(process)]
        if self._led and all(process.pid != leader.pid for process in running):
            self._led = False
            self._kill_at = min(self._kill_at, now + _ORPHAN_GRACE_S)
        for process in running:
            leads = process.pid == leader.pid
            if kill or now >= self._kill_at:
                _signal(process, signal.SIGKILL)
            elif process.pid not in self._told and (leads or not self._led):
                self._told.add(process.pid)
                _signal(process, self._session.stop_signal if leads else signal.SIGTERM)
        return not running


def _members(leader: Identity) -> list[psutil.Process]:
    """All that runs in the leader's session, and while it lives its descendants elsewhere too.

    The kernel keeps a number from being used again while a session of that number has a member.
    So when the number belongs to a process that started at another time, the session is not ours.
    """
    process = leader.process()
    if process is None and _number_is_foreign(leader):
        return []
    members = [] if process is None else [process]
    for pid in psutil.pids():
        if pid not in (os.getpid(), leader.pid) and _session_of(pid) == leader.pid:
            try:
                member = psutil.Process(pid)
            except psutil.NoSuchProcess:
                continue
            if _session_of(pid) == leader.pid:  # still: the number was not used again meanwhile
                members.append(member)
    if process is not None:
        with contextlib.suppress(psutil.NoSuchProcess):
            members += [p for p in process.children(recursive=True) if p.pid != os.getpid()]
    return members


@contextlib.contextmanager
def _ending_of(pid: int) -> Iterator[Callable[[float], object]]:
    """A function that waits for the process's end, for some seconds at most."""
    try:
        descriptor = os.pidfd_open(pid)
    except (AttributeError, OSError):  # not Linux, or forbidden in a container, or it has ended
        yield lambda seconds: time.sleep(min(seconds, _LOOK_EVERY_S))
        return
    try:
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        yield lambda seconds: poll.poll(seconds * 1000)
    finally:
        os.close(descriptor)


def _number_is_foreign(leader: Identity) -> bool:
    now = Identity.of(leader.pid)
    return now is not None and abs(now.started - leader.started) >= _SAME_START_S


def _session_of(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except OSError:
        return None


def _start_of(pid: int) -> float:
    # psutil adds the date of the machine's start; take it off again, unless it moved in between.
    while True:
        booted = psutil.boot_time()
        created = psutil.Process(pid).create_time()
        if psutil.boot_time() == booted:
            return round(float(created - booted), 3)


def _runs(process: psutil.Process) -> bool:
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def _signal(process: psutil.Process, number: int) -> None:
    with contextlib.suppress(psutil.NoSuchProcess):
        process.send_signal(number)  # psutil compares the start time once more
