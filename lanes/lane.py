"""The three lanes. A lower number goes first; it is also vLLM's priority value."""

from __future__ import annotations

from enum import IntEnum


class Lane(IntEnum):
    INTERACTIVE = 0
    STANDARD = 1
    BULK = 2

    @property
    def label(self) -> str:
        """The short name used in metrics, queues and on the command line: p0, p1, p2."""
        return f"p{int(self)}"
