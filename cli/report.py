"""What `fairlane up` shows: one line a part, redrawn on a terminal, else a line for each change."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, Self

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from cli.supervised import DONE, FAILED, RESTARTING, STOPPING, WAITING
from db.readiness import READY
from db.run_state import PartState

_STYLES = {READY: "green", DONE: "green", RESTARTING: "yellow", STOPPING: "yellow", FAILED: "red"}


class Report(Protocol):
    def update(self, parts: Sequence[PartState]) -> None:
        """Show the present states."""

    def say(self, text: str) -> None:
        """Show one line that stays."""

    def all_ready(self, url: str | None) -> None:
        """Show that everything has started."""


class PlainReport:
    """For pipes and log files."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._shown: dict[str, str] = {}

    def update(self, parts: Sequence[PartState]) -> None:
        for part in parts:
            # A restart was said already, with its reason.
            if part.state not in (self._shown.get(part.name, WAITING), RESTARTING):
                self._shown[part.name] = part.state
                self.say(f"{part.name:<12} {part.state}")

    def say(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def all_ready(self, url: str | None) -> None:
        self.say(_welcome(url))


class LiveReport:
    """For terminals. Use it as a context: the lines are drawn while it is open."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, auto_refresh=False)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def update(self, parts: Sequence[PartState]) -> None:
        self._live.update(parts_table(parts), refresh=True)

    def say(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def all_ready(self, url: str | None) -> None:
        self.say(_welcome(url))


def parts_table(parts: Sequence[PartState], uptimes_s: Sequence[float | None] | None = None) -> Table:
    """One row a part; with the uptimes, if given, as a last column."""
    table = Table(box=None, pad_edge=False, show_header=uptimes_s is not None)
    for title, width in (("part", 11), ("state", 10), ("pid", 7), ("restarts", 8)):
        table.add_column(title, min_width=width)  # so that the columns stay where they are
    if uptimes_s is not None:
        table.add_column("uptime")
    for index, part in enumerate(parts):
        state = Text(part.state, style=_STYLES.get(part.state, "cyan"))
        cells: list[str | Text] = [part.name, state, str(part.pid or "-"), str(part.restarts or "-")]
        if uptimes_s is not None:
            uptime = uptimes_s[index]
            cells.append("-" if uptime is None else f"{uptime:.0f} s")
        table.add_row(*cells)
    return table


def _welcome(url: str | None) -> str:
    return f"Fairlane is ready at {url}; `fairlane env` prints the settings for a client" if url else "ready"
