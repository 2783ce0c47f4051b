"""How fast a batch goes and how long it still takes, from counts that were seen now and then."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

_WINDOW_S = 60.0
_ENOUGH_LINES = 10  # the first lines of a full engine end long before the others: too few to foretell from


@dataclass(frozen=True, slots=True)
class _Step:
    at_s: float
    done: int
    tokens: int


class Pace:
    """Rates over the last minute. Times are seconds of one monotonic clock, given by the caller.

    Only changes count: the time before the first one (a queue, a model that loads) says nothing
    about the speed afterwards, and neither does how often somebody looked.
    """

    def __init__(self) -> None:
        self._first = 0
        self._seen: int | None = None
        self._steps: deque[_Step] = deque()
        self._now_s = 0.0

    def look(self, now_s: float, done: int, tokens: int) -> None:
        """Take note of the lines done and the tokens generated so far."""
        self._now_s = now_s
        if self._seen is None:
            self._first = done
        elif done != self._seen:
            self._steps.append(_Step(now_s, done, tokens))
        self._seen = done
        while len(self._steps) > 2 and self._steps[1].at_s < now_s - _WINDOW_S:
            self._steps.popleft()

    @property
    def lines_per_s(self) -> float | None:
        """None until it can be told."""
        return None if len(self._steps) < 2 else self._rate(self._steps[-1].done - self._steps[0].done)

    @property
    def tokens_per_s(self) -> float | None:
        """None until it can be told, and where no usage is known."""
        if len(self._steps) < 2:
            return None
        return self._rate(self._steps[-1].tokens - self._steps[0].tokens) or None

    def remaining_s(self, total: int) -> float | None:
        """Seconds until `total` lines are done at this rate; None when it cannot be told."""
        rate = self.lines_per_s
        if not rate or self._seen is None or self._steps[-1].done - self._first < _ENOUGH_LINES:
            return None
        return max(0, total - self._seen) / rate

    def _rate(self, amount: int) -> float | None:
        passed_s = self._now_s - self._steps[0].at_s
        return amount / passed_s if passed_s > 0 else None


def duration(seconds: float) -> str:
    """A length of time in the two units that matter, such as "2 min 5 s"."""
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
