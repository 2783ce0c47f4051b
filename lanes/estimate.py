"""Estimates of work before it is done. Conservative and plain: settled later to what really ran."""

from __future__ import annotations

from lanes.policy import Policy

# English text runs at 4 to 5 bytes a token and the JSON around it adds some; counting 4 errs high.
_BYTES_PER_TOKEN = 4


def input_tokens(body_bytes: int) -> int:
    """Tokens of a request body of that many bytes, at least 1."""
    return max(1, -(-body_bytes // _BYTES_PER_TOKEN))


def output_tokens(limit: int | None, policy: Policy) -> int:
    """Predicted output of a request with that output limit (None: no limit given)."""
    return policy.output_guess_tokens if limit is None else min(limit, policy.output_guess_tokens)
