"""Whether and when a failed attempt is tried again."""

from __future__ import annotations

from lanes.failure import Failure
from lanes.policy import Policy


def retry_after(
    failure: Failure, attempts: int, remaining_seconds: float, jitter: float, policy: Policy
) -> float | None:
    """Seconds to wait before the next attempt, or None when there is none.

    Args:
        attempts: failed attempts that count, this one included.
        remaining_seconds: to the job's deadline.
        jitter: a number in [0, 1) drawn by the caller; full jitter spreads a herd of retries.
    """
    if not failure.retriable:
        return None
    if not failure.blames_job:
        return failure.pause_seconds
    if attempts >= policy.attempts:
        return None
    ceiling = min(policy.backoff_limit_seconds, policy.backoff_seconds * 2 ** (attempts - 1))
    wait = ceiling * (0.5 + jitter / 2)
    return wait if wait < remaining_seconds else None
