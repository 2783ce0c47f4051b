"""Why an attempt or a job failed, and what follows from each reason.

The reason owns its answers: may it be tried again, does it blame the job, and what the user
is told. No text here carries a prompt or an engine's own words.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Failure:
    code: str  # stable, in `error.code` of the record
    message: str  # what happened and what to do
    retriable: bool
    blames_job: bool  # counts against the job's attempts
    pause_seconds: float = 0.0  # before the next attempt, where nobody is blamed


ENGINE_ERROR = Failure(
    "engine_error", "The engine failed on this request. Send it again; report it if it repeats.", True, True
)
BODY_LOST = Failure(
    "body_lost", "The stored request could not be read back. Submit this line again.", True, True
)
STORE_UNREACHABLE = Failure(
    "store_unreachable", "The object store did not answer; the request waits for it.", True, False, 5.0
)
ENGINE_LOST = Failure("engine_lost", "The engine ended while it held this request.", True, False)
DRAINED = Failure("drained", "The worker was drained before this request ended.", True, False)
ENGINE_KILLER = Failure(
    "engine_killer",
    "The engine ended while it ran this request alone. Change the request before you send it again.",
    False,
    True,
)
EXPIRED = Failure(
    "batch_expired",
    "This request could not be executed before its fairlane_deadline or the completion window expired.",
    False,
    False,
)
CANCELLED = Failure(
    "batch_cancelled", "The batch was cancelled before this request was executed.", False, False
)
