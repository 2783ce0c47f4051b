"""What an engine under test is told to do, and what it tells of it; both cross a process boundary.

Times are seconds of the monotonic clock, which all processes of a machine share.
"""

from __future__ import annotations

from dataclasses import dataclass

from lanes.lane import Lane


@dataclass(frozen=True, slots=True)
class OneByOne:
    """P0 requests, each sent when the one before has ended and its gap has passed."""

    gaps: tuple[float, ...]
    tokens: int


@dataclass(frozen=True, slots=True)
class Send:
    at: float  # seconds after the phase begins
    lane: Lane
    tokens: int


@dataclass(frozen=True, slots=True)
class Trace:
    """Requests sent at given times, whatever becomes of those before them. Ends when all have ended."""

    sends: tuple[Send, ...]


@dataclass(frozen=True, slots=True)
class Quiet:
    """Nothing is sent but what the backlog sends."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Backlog:
    """From now on so many clients send one P2 request after another; 0 ends those that run."""

    clients: int
    tokens: int = 64


@dataclass(frozen=True, slots=True)
class Turn:
    """Turn the lane scheduler's `max_step_ms`; every other knob keeps the policy's value."""

    max_step_ms: float


Phase = OneByOne | Trace | Quiet | Backlog | Turn


@dataclass(frozen=True, slots=True)
class Answer:
    """One finished request; `sent` is when it was meant to be sent."""

    lane: Lane
    prompt_tokens: int
    tokens: int
    sent: float
    first: float  # when its first token was seen
    last: float

    @property
    def ttft(self) -> float:
        return self.first - self.sent

    @property
    def per_token(self) -> float:
        """Seconds between two tokens, on average; 0 when there was only one."""
        return (self.last - self.first) / (self.tokens - 1) if self.tokens > 1 else 0.0


@dataclass(frozen=True, slots=True)
class Report:
    begin: float
    end: float
    answers: tuple[Answer, ...] = ()
