"""A batch: a file of jobs, its states, its completion window and the deadlines inside it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum


class BatchStatus(StrEnum):
    VALIDATING = "validating"
    FAILED = "failed"
    IN_PROGRESS = "in_progress"
    FINALIZING = "finalizing"
    COMPLETED = "completed"
    EXPIRED = "expired"
    CANCELLING = "cancelling"
    CANCELLED = "cancelled"

    @property
    def is_terminal(self) -> bool:
        return not NEXT[self]


# Which status may follow which; the database writes each step as compare-and-set.
NEXT: dict[BatchStatus, frozenset[BatchStatus]] = {
    BatchStatus.VALIDATING: frozenset(
        {BatchStatus.IN_PROGRESS, BatchStatus.FAILED, BatchStatus.CANCELLING, BatchStatus.EXPIRED}
    ),
    BatchStatus.IN_PROGRESS: frozenset({BatchStatus.FINALIZING, BatchStatus.CANCELLING}),
    BatchStatus.FINALIZING: frozenset({BatchStatus.COMPLETED, BatchStatus.EXPIRED}),
    BatchStatus.CANCELLING: frozenset({BatchStatus.CANCELLED}),
    BatchStatus.FAILED: frozenset(),
    BatchStatus.COMPLETED: frozenset(),
    BatchStatus.EXPIRED: frozenset(),
    BatchStatus.CANCELLED: frozenset(),
}

_DURATION = re.compile(r"([1-9][0-9]{0,5})([smhd])")
_UNIT = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
LONGEST_WINDOW = timedelta(days=30)


@dataclass(frozen=True, slots=True)
class Window:
    """A duration that counts from the creation of a batch."""

    text: str  # as the client spelled it
    lasts: timedelta


def completion_window(text: str) -> Window | None:
    """The duration of "24h", "90s", "15m" or "7d"; None when the text is none or too long."""
    match = _DURATION.fullmatch(text)
    if match is None:
        return None
    lasts = timedelta(**{_UNIT[match[2]]: int(match[1])})
    return Window(text, lasts) if lasts <= LONGEST_WINDOW else None
