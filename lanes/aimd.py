"""How many bulk requests may be in an engine that has no lanes of its own.

Additive increase, multiplicative decrease on the time to first token of P0, as TCP does on loss:
one more for each good sample, a third fewer after a bad one, and then no fewer until requests that
were inside have had time to leave.
"""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class CapKnobs:
    target_ttft_ms: float = 500.0
    decrease: float = 0.67
    hold_seconds: float = 2.0  # between two decreases
    quiet_seconds: float = 5.0  # without P0: as good as a good sample, each time bulk ends
    least: int = 1


@dataclass(frozen=True, slots=True)
class BulkCap:
    """The cap now. `now` is any clock's seconds that only grow."""

    seats: int
    limit: float
    decreased_at: float = float("-inf")
    sampled_at: float = float("-inf")

    @classmethod
    def of(cls, seats: int) -> BulkCap:
        """The cap of an engine that has served no P0 yet: all seats."""
        return cls(seats, float(seats))

    def after_ttft(self, ttft_ms: float, now: float, knobs: CapKnobs) -> BulkCap:
        """One more P0 request got its first token."""
        sampled = replace(self, sampled_at=now)
        if ttft_ms <= knobs.target_ttft_ms:
            return sampled._raised()
        if now - self.decreased_at < knobs.hold_seconds:
            return sampled
        return replace(sampled, limit=max(float(knobs.least), self.limit * knobs.decrease), decreased_at=now)

    def after_bulk(self, now: float, knobs: CapKnobs) -> BulkCap:
        """One more bulk request ended."""
        return self._raised() if now - self.sampled_at >= knobs.quiet_seconds else self

    def _raised(self) -> BulkCap:
        return replace(self, limit=min(float(self.seats), self.limit + 1.0))
