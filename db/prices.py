"""What tokens cost, as the statements that charge and settle take it."""

from __future__ import annotations

from lanes.policy import Policy


def prices(policy: Policy) -> dict[str, float]:
    """The parameters `input_cost` and `output_cost`, in cost units a token."""
    return {"input_cost": policy.input_cost, "output_cost": policy.output_cost}
