"""The supervisor: keeps a table of parts running until it is asked to stop, then drains them.

The table is in start order. Parts stop one after the other in the reverse order, so that whoever
takes work stops before those that do it, and the databases last.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from cli.logs import keep_small, last_lines
from cli.part import Part
from cli.report import Report
from cli.supervised import DONE, FAILED, RESTARTING, STOPPING, WAITING, Supervised
from db.embedded import EmbeddedError
from db.processes import Identity
from db.readiness import READY
from db.run_state import RunState, state_path, this_boot, write_state

_TICK_S = 0.25
_LOG_CHECK_S = 30.0


class PartFailed(RuntimeError):
    """A part without which the platform cannot start has failed; the text says why."""


class Supervisor:
    """Runs parts for one home. The caller holds the home's lock (db.home_lock)."""

    def __init__(self, parts: Sequence[Part], *, home: Path, report: Report, url: str | None = None) -> None:
        self._parts = [Supervised(part, home) for part in parts]
        self._by_name = {supervised.part.name: supervised for supervised in self._parts}
        self._home = home
        self._report = report
        self._url = url
        self._owner = Identity.of_this_process()
        self._recorded: RunState | None = None
        self._announced = False
        self._logs_checked_at = 0.0
        self._stop = threading.Event()
        self._hurry = threading.Event()

    @property
    def records(self) -> RunState:
        parts = tuple(supervised.record for supervised in self._parts)
        return RunState(owner=self._owner, boot=this_boot(), url=self._url, parts=parts)

    def ask_to_stop(self) -> None:
        """Drain and return from `run`; asked twice, end everything without waiting.

        May be called from a signal handler or another thread.
        """
        if self._stop.is_set():
            self._hurry.set()
        self._stop.set()

    def run(self) -> None:
        """Supervise until asked to stop. Whatever happens, no part is left running.

        Raises:
            PartFailed: a part that the start depends on failed.
        """
        try:
            while not self._stop.is_set():
                self.tick(time.monotonic())
                self._stop.wait(_TICK_S)
        finally:
            self._stop.set()  # the next request to stop means: hurry
            self._drain()

    def tick(self, now: float) -> None:
        """One look at every part: notice deaths, start what is due, learn states."""
        for supervised in self._parts:
            code = supervised.ended()
            if code is not None:
                self._died(supervised, code, now)
            if self._is_due(supervised, now):
                self._start(supervised, now)
            elif supervised.running:
                supervised.look()
        self._publish()
        if not self._announced and all(part.state in (READY, DONE) for part in self._parts):
            self._announced = True
            self._report.all_ready(self._url)
        if now - self._logs_checked_at >= _LOG_CHECK_S:
            self._logs_checked_at = now
            for supervised in self._parts:
                keep_small(supervised.log)

    def _is_due(self, supervised: Supervised, now: float) -> bool:
        if supervised.state == RESTARTING:
            return supervised.restart_at is not None and now >= supervised.restart_at
        return supervised.state == WAITING and all(
            self._by_name[name].was_ready for name in supervised.part.after
        )

    def _start(self, supervised: Supervised, now: float) -> None:
        try:
            supervised.start(now, self._publish)
        except EmbeddedError as error:
            if not supervised.was_ready:
                supervised.state = FAILED
                raise PartFailed(str(error)) from error
            pause = supervised.plan_restart(now)
            self._report.say(f"{supervised.part.name}: {error}; tried again in {pause:g} s")

    def _died(self, supervised: Supervised, code: int, now: float) -> None:
        name = supervised.part.name
        if supervised.part.once and code == 0:
            supervised.finish()
            return
        if supervised.part.once:
            supervised.state = FAILED
            raise PartFailed(
                f"{name} {_how(code)}; the end of {supervised.log}:\n{last_lines(supervised.log)}"
            )
        pause = supervised.plan_restart(now)
        self._report.say(f"{name} {_how(code)}; started again in {pause:g} s (log: {supervised.log})")

    def _drain(self) -> None:
        for supervised in reversed(self._parts):
            if supervised.running:
                supervised.state = STOPPING
                self._publish()
            supervised.stop(hurry=self._hurry.is_set)
            self._publish()
        with contextlib.suppress(FileNotFoundError):
            state_path(self._home).unlink()

    def _publish(self) -> None:
        records = self.records
        if records != self._recorded:
            self._recorded = records
            write_state(state_path(self._home), records)
            self._report.update(records.parts)


def _how(code: int) -> str:
    return f"was killed by signal {-code}" if code < 0 else f"ended with code {code}"
