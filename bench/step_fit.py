"""Step times for the simulator, fitted from steps that an engine recorded."""

from __future__ import annotations

import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from bench.steps import Step
from lanes.step_time import StepTimeModel

_PASSES = 5
_IDLE_S = 0.02  # a longer pause between two steps means that there was nothing to do
_STRETCH = 500


@dataclass(frozen=True, slots=True)
class Clock:
    """How long steps take, and how far they stray from that."""

    model: StepTimeModel
    stretch: tuple[float, ...]  # measured over expected, of steps drawn at random
    pause_ms: float
    error: float  # median of |measured / expected - 1|


def learnt(steps: Sequence[Step]) -> StepTimeModel:
    """What the engine's own model has become after these steps."""
    model = StepTimeModel()
    for step in steps:
        model = model.learn(step.load, _ms(step))
    return model


def fit_steps(steps: Sequence[Step], chance: random.Random) -> Clock:
    """Fit recorded steps, several times in random order, so that none counts for being the latest."""
    model = StepTimeModel()
    for _ in range(_PASSES):
        for step in chance.sample(steps, len(steps)):
            model = model.learn(step.load, _ms(step))
    shares = [_ms(step) / model.expect(step.load) for step in steps]
    pauses = [later.begin - earlier.end for earlier, later in pairwise(steps)]
    return Clock(
        model,
        tuple(chance.choices(shares, k=_STRETCH)),
        1000 * statistics.median(pause for pause in pauses if pause < _IDLE_S),
        statistics.median(abs(share - 1) for share in shares),
    )


def _ms(step: Step) -> float:
    return 1000 * (step.end - step.begin)
