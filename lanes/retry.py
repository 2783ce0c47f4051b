"""Whether and when a failed attempt is tried again."""

from __future__ import annotations

from dataclasses import dataclass, replace

from lanes.failure import Failure
from lanes.policy import Policy


@dataclass(frozen=True, slots=True)
class RetryBudget:
    """What a worker may spend on retries that blame their job: a share of the jobs it finished.

    Without it, a fault that all jobs meet (a broken engine, a bad model) would double or treble
    the load just when least of it can be carried.
    """

    saved: float

    @classmethod
    def full(cls, policy: Policy) -> RetryBudget:
        """What a worker starts with."""
        return cls(policy.retry_budget_burst)

    def after_finish(self, policy: Policy) -> RetryBudget:
        """One more job ended."""
        return replace(self, saved=min(policy.retry_budget_burst, self.saved + policy.retry_budget_share))

    @property
    def allows(self) -> bool:
        return self.saved >= 1.0

    def after_retry(self) -> RetryBudget:
        """One more retry that blames its job; those beyond the budget cost nothing."""
        return replace(self, saved=self.saved - 1.0) if self.allows else self


def retry_after(
    failure: Failure,
    attempts: int,
    remaining_seconds: float,
    jitter: float,
    policy: Policy,
    *,
    in_budget: bool = True,
) -> float | None:
    """Seconds to wait before the next attempt, or None when there is none.

    Args:
        attempts: failed attempts that count, this one included.
        remaining_seconds: to the job's deadline.
        jitter: a number in [0, 1) drawn by the caller; full jitter spreads a herd of retries.
        in_budget: `RetryBudget.allows`. Beyond the budget a retry waits as long as any may, or half
            of what its deadline leaves; it is never dropped.
    """
    if not failure.retriable:
        return None
    if not failure.blames_job:
        return failure.pause_seconds
    if attempts >= policy.attempts:
        return None
    ceiling = min(policy.backoff_limit_seconds, policy.backoff_seconds * 2.0 ** (attempts - 1))
    wait = ceiling * (0.5 + jitter / 2)
    if wait >= remaining_seconds:
        return None
    return wait if in_budget else max(wait, min(policy.backoff_limit_seconds, remaining_seconds / 2))
