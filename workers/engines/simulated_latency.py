"""How long one engine step takes: the whole of what the simulated engine knows about hardware."""

from __future__ import annotations

import math
from dataclasses import dataclass

INSTANT = math.inf


@dataclass(frozen=True, slots=True)
class LatencyModel:
    """A step computes the prompts that enter with it and one token for every running request.

    The defaults are near SmolLM2-135M on two CPU cores with all 128 seats taken. `speed` divides
    every time; INSTANT makes steps take no time at all.
    """

    prefill_ms_per_token: float = 0.5
    step_ms: float = 35.0
    decode_ms_per_request: float = 1.0
    speed: float = 1.0

    def step_seconds(self, prefill_tokens: int, running: int) -> float:
        """Seconds of a step that reads `prefill_tokens` of new prompts with `running` requests in all."""
        milliseconds = (
            self.step_ms + self.prefill_ms_per_token * prefill_tokens + self.decode_ms_per_request * running
        )
        return milliseconds / 1000 / self.speed
