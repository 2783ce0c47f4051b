"""The retry budget: a share of what finished, saved up to a burst, and nothing is dropped for it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lanes import failure
from lanes.policy import DEFAULT
from lanes.retry import RetryBudget, retry_after


@given(st.lists(st.booleans(), max_size=2000))
def test_retries_are_a_burst_and_a_share_of_what_finished(finishes: list[bool]) -> None:
    budget = RetryBudget.full(DEFAULT)
    retried = 0
    for finished in finishes:
        if finished:
            budget = budget.after_finish(DEFAULT)
        else:
            retried += budget.allows
            budget = budget.after_retry()
        assert 0 <= budget.saved <= DEFAULT.retry_budget_burst

    allowed = DEFAULT.retry_budget_burst + DEFAULT.retry_budget_share * sum(finishes)
    assert retried <= allowed + 1e-6


@given(st.integers(1, 2), st.floats(0.1, 1e5), st.floats(0, 0.999))
def test_beyond_the_budget_a_retry_waits_longer_and_is_never_dropped(
    attempts: int, remaining: float, jitter: float
) -> None:
    within = retry_after(failure.ENGINE_ERROR, attempts, remaining, jitter, DEFAULT)
    beyond = retry_after(failure.ENGINE_ERROR, attempts, remaining, jitter, DEFAULT, in_budget=False)

    assert (within is None) == (beyond is None)
    if within is not None and beyond is not None:
        assert within <= beyond < remaining
        if remaining > 2 * DEFAULT.backoff_limit_seconds:
            assert beyond == DEFAULT.backoff_limit_seconds


def test_the_budget_does_not_touch_what_blames_nobody() -> None:
    assert retry_after(failure.ENGINE_LOST, 99, 10.0, 0.5, DEFAULT, in_budget=False) == 0.0
