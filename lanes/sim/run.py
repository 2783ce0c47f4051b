"""A whole trace through a simulated engine."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import cycle

from lanes.sim.engine import SimEngine
from lanes.sim.values import SimAnswer, SimRequest, SimRun, SimShape, SimStep
from lanes.step_time import StepTimeModel
from lanes.step_values import StepKnobs


def simulate(
    requests: Iterable[SimRequest],
    shape: SimShape,
    knobs: StepKnobs,
    *,
    clock: StepTimeModel,
    planner: StepTimeModel | None = None,
    stretch: Sequence[float] = (1.0,),
    pause_ms: float = 0.0,
) -> SimRun:
    """Run every request to its end.

    A step takes what `clock` expects of it, times the next of `stretch` (draws of measured over
    expected, used in turn), and the next begins `pause_ms` later. The scheduler's own model starts
    as `planner` and learns from each step, as it does in the engine.

    Raises:
        ValueError: a request can never run, or no step carries anything any more.
    """
    engine = SimEngine(shape)
    coming = sorted(requests, key=lambda request: request.arrival_ms)[::-1]
    planner = planner or StepTimeModel()
    factors = cycle(stretch)
    steps: list[SimStep] = []
    first_ms: dict[str, float] = {}
    answers: list[SimAnswer] = []
    now = 0.0
    empty = 0
    while coming or engine.busy:
        if not engine.busy:
            now = max(now, coming[-1].arrival_ms)
        while coming and coming[-1].arrival_ms <= now:
            engine.add(coming.pop())
        carried = engine.step(knobs, planner)
        empty = 0 if carried.tokens else empty + 1
        if empty > 2 * knobs.max_withheld_steps:
            raise ValueError("the engine stands still though requests are there")
        took = clock.expect(carried.load) * next(factors) if carried.tokens else 0.0
        first, ended, tokens = engine.settle(carried)
        end = now + took
        first_ms |= {request.key: end for request in first}
        answers += [SimAnswer(request, first_ms[request.key], end) for request in ended]
        steps.append(SimStep(now, end, carried, tokens, engine.free_seats, engine.free_blocks))
        if carried.tokens:
            planner = planner.learn(carried.load, took)
            now = end + pause_ms
    return SimRun(tuple(steps), tuple(answers))
