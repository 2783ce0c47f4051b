"""What was served lately: sums that halve with time, so that a rate follows its present value."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Lately:
    """Costs and jobs served, and the seconds over which they were."""

    cost: float = 0.0
    jobs: float = 0.0
    seconds: float = 0.0

    def after(self, seconds: float, cost: float, jobs: int, half_life: float) -> Lately:
        """`seconds` more passed, in which so much was served; a negative cost takes back a reservation."""
        kept = 0.5 ** (seconds / half_life)
        return Lately(
            max(0.0, self.cost * kept + cost), self.jobs * kept + jobs, self.seconds * kept + seconds
        )

    @property
    def cost_per_second(self) -> float:
        """The service rate; 0 while nothing is known."""
        return self.cost / self.seconds if self.seconds > 0 else 0.0

    @property
    def mean_cost(self) -> float:
        """The cost of a job; 0 while nothing is known."""
        return self.cost / self.jobs if self.jobs > 0 else 0.0
