"""How long each engine step took, measured inside the scheduler."""

from __future__ import annotations

from collections import deque
from typing import Any, Generic, TypeVar

What = TypeVar("What")


class StepClock(Generic[What]):
    """Pairs each step that was scheduled with the moment its output came back.

    With asynchronous scheduling the next step is scheduled while one still runs, and starts when that
    one ends. Without it a step starts when it is scheduled, after the end of the one before.
    """

    def __init__(self) -> None:
        self._running: deque[tuple[Any, float, What]] = deque()
        self._last_end = 0.0

    def began(self, step: Any, at: float, what: What) -> None:
        """`step` (any object, known again by its identity) was scheduled from `at` on; it does `what`."""
        self._running.append((step, at, what))

    def ended(self, step: Any, at: float) -> tuple[What, float] | None:
        """What a step whose output came did, and its milliseconds; None if its beginning is unknown."""
        while self._running:
            begun, began, what = self._running.popleft()
            if begun is step:
                began = max(began, self._last_end)
                self._last_end = at
                return what, 1e3 * (at - began)
        return None
