"""The step simulator against the engine: the same requests at the same times through both.

Steps measured on other traces, the one before and the one after, fit the simulator's step times: a
machine that others use drifts by more than the error that is asked about. The first trace only
warms up. What a request spends outside of steps (sending, reading, waking up) is measured on the
idle engine and added to simulated first tokens.

throughput_error, p0_ttft_p90_error: |simulated / measured - 1| over the compared traces together:
a tail of one short trace is a handful of requests.
"""

from __future__ import annotations

import random
import statistics
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from bench.engine_side import EngineSide
from bench.engines_under_test import OURS, about_engines, engines
from bench.phase import Answer, OneByOne, Report, Send, Trace
from bench.quantiles import quantile
from bench.result import Bar, Result, spread_of
from bench.step_fit import Clock, fit_steps, learnt
from bench.steps import between, within
from lanes.lane import Lane
from lanes.policy import DEFAULT
from lanes.sim.arrivals import poisson
from lanes.sim.run import simulate
from lanes.sim.values import SimRequest, SimRun, SimShape
from lanes.step_time import StepTimeModel

BARS = {
    "throughput_error": Bar(0.10, 0.05, less_is_better=True),
    "p0_ttft_p90_error": Bar(0.20, 0.10, less_is_better=True),
}
SEED = 20261201
IDLE_REQUESTS = 20


@dataclass(frozen=True, slots=True)
class Scale:
    compared: int  # traces, each between two that are fitted
    p2_requests: int  # of a trace, all sent at once
    p0_per_second: float
    p0_seconds: float  # for how long P0 requests come


SCALES = {"quick": Scale(2, 220, 3.0, 22), "full": Scale(4, 600, 3.0, 50)}


@dataclass(frozen=True, slots=True)
class Pair:
    """One trace, measured and simulated: output tokens/s, and P0's TTFT in seconds."""

    rate: float
    simulated_rate: float
    ttft: Sequence[float]
    simulated_ttft: Sequence[float]


def _error(simulated: float, measured: float) -> float:
    return round(abs(simulated / measured - 1), 3)


def run(scale: str) -> Result:
    """Measure. Needs the demo model where `make setup` puts it."""
    size = SCALES[scale]
    with engines(OURS) as (side,):
        outside_s = _outside_steps(side)
        traces = [_trace(size, random.Random(SEED + n)) for n in range(2 + 2 * size.compared)]  # noqa: S311 - workloads only
        _, *reports = [side.do(trace) for trace in traces]
        steps = side.steps()
        pairs = []
        for before, report, after in zip(reports[::2], reports[1::2], reports[2::2], strict=False):
            clock = fit_steps([*within(steps, before), *within(steps, after)], random.Random(SEED))  # noqa: S311 - an order only
            planner = learnt(between(steps, 0.0, report.begin))
            pairs.append(_compare(report, side.shape, clock, planner, outside_s))
            _tell(pairs[-1])
    ttft = [value for pair in pairs for value in pair.ttft]
    simulated_ttft = [value for pair in pairs for value in pair.simulated_ttft]
    return Result(
        bench="step_simulator",
        figures={
            "throughput_error": _error(
                statistics.harmonic_mean(pair.simulated_rate for pair in pairs),
                statistics.harmonic_mean(pair.rate for pair in pairs),
            ),
            "p0_ttft_p90_error": _error(quantile(simulated_ttft, 0.9), quantile(ttft, 0.9)),
        },
        spread={
            "measured_tokens_per_s": spread_of([pair.rate for pair in pairs]),
            "simulated_tokens_per_s": spread_of([pair.simulated_rate for pair in pairs]),
            "measured_p0_ttft_s": spread_of(ttft),
            "simulated_p0_ttft_s": spread_of(simulated_ttft),
        },
        about={
            **about_engines(SEED),
            **asdict(size),
            "outside_steps_ms": round(1000 * outside_s, 1),
            "steps": len(steps),
            "fitted_weights": [round(weight, 2) for weight in clock.model.weights],
            "fit_error": round(clock.error, 3),
        },
    )


def _outside_steps(side: EngineSide) -> float:
    """What an idle engine's first token takes beyond the step that makes it."""
    side.do(OneByOne((0.0,) * 3, 1))
    report = side.do(OneByOne((0.05,) * IDLE_REQUESTS, 1))
    ttft = statistics.median(answer.ttft for answer in report.answers)
    return ttft - statistics.median(step.end - step.begin for step in within(side.steps(), report))


def _trace(size: Scale, chance: random.Random) -> Trace:
    bulk = [Send(0.0, Lane.BULK, chance.randint(16, 112)) for _ in range(size.p2_requests)]
    draws = [chance.random() for _ in range(int(3 * size.p0_per_second * size.p0_seconds))]
    times = [at for at in poisson(draws, size.p0_per_second) if at < size.p0_seconds]
    return Trace((*bulk, *(Send(at, Lane.INTERACTIVE, chance.randint(4, 24)) for at in times)))


def _compare(report: Report, shape: SimShape, clock: Clock, planner: StepTimeModel, outside_s: float) -> Pair:
    run = simulate(
        [_request(number, answer, report.begin) for number, answer in enumerate(report.answers)],
        shape,
        DEFAULT.step,
        clock=clock.model,
        planner=planner,
        stretch=clock.stretch,
        pause_ms=clock.pause_ms,
    )
    measured = [answer for answer in report.answers if answer.lane is Lane.INTERACTIVE]
    seconds = max(answer.last for answer in report.answers) - report.begin
    return Pair(
        rate=sum(answer.tokens for answer in report.answers) / seconds,
        simulated_rate=run.tokens_per_s,
        ttft=[answer.ttft for answer in measured],
        simulated_ttft=_first_tokens(run, outside_s),
    )


def _request(number: int, answer: Answer, begin: float) -> SimRequest:
    urgent = answer.lane is Lane.INTERACTIVE
    return SimRequest(f"r{number}", urgent, 1000 * (answer.sent - begin), answer.prompt_tokens, answer.tokens)


def _first_tokens(run: SimRun, outside_s: float) -> list[float]:
    return [answer.ttft_ms / 1000 + outside_s for answer in run.answers if answer.request.urgent]


def _tell(pair: Pair) -> None:
    ttft = {
        share: [round(1000 * quantile(series, share)) for series in (pair.ttft, pair.simulated_ttft)]
        for share in (0.5, 0.9)
    }
    print(
        f"measured, simulated: {pair.rate:.0f}, {pair.simulated_rate:.0f} tokens/s; "
        f"P0 TTFT p50 {ttft[0.5]}, p90 {ttft[0.9]} ms (n = {len(pair.ttft)})",
        file=sys.stderr,
        flush=True,
    )
