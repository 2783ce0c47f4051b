"""Estimates of work before it is done. Conservative and plain: settled later to what really ran."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil

from lanes.lengths import quantile
from lanes.policy import Policy

# English text runs at 4 to 5 bytes a token and the JSON around it adds some; counting 4 errs high.
_BYTES_PER_TOKEN = 4


def input_tokens(body_bytes: int) -> int:
    """Tokens of a request body of that many bytes, at least 1."""
    return max(1, -(-body_bytes // _BYTES_PER_TOKEN))


def expected_output(seen: Mapping[int, int], policy: Policy) -> int:
    """Output tokens to expect of a request without a limit, by what was seen of its like.

    Args:
        seen: finished requests of that tenant, model and input bucket, counted by the bucket of
            their output (`lanes.lengths`); may be empty. While they are few, the guess of the
            policy counts for those that are missing.
    """
    samples = sum(seen.values())
    if not samples:
        return policy.output_guess_tokens
    trust = min(1.0, samples / policy.young_samples)
    known = quantile(seen, policy.output_quantile)
    return ceil(trust * known + (1 - trust) * policy.output_guess_tokens)


def output_tokens(limit: int | None, policy: Policy, seen: Mapping[int, int] | None = None) -> int:
    """Predicted output of a request; never above its own limit (None: no limit given)."""
    expected = expected_output(seen or {}, policy)
    return expected if limit is None else min(limit, expected)


def misses_deadline(
    due_seconds: float, jobs: int, job_cost: float, cost_per_second: float, policy: Policy
) -> bool:
    """Whether that many jobs, served at this rate, are predicted not to end in time.

    Never where the rate is not known (0), nor once the deadline has passed: nothing helps then.
    """
    if cost_per_second <= 0 or due_seconds <= 0:
        return False
    return due_seconds < policy.risk_margin * jobs * job_cost / cost_per_second
