"""One measured batch."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sample:
    """Output tokens, and seconds from the first request in the engine to the last record kept."""

    tokens: int
    seconds: float

    @property
    def rate(self) -> float:
        """Output tokens each second."""
        return self.tokens / self.seconds
