"""The step simulator against the engine: the same requests at the same times through both.

Steps measured on earlier traces fit the simulator's step times; the compared traces have other
seeds. What a request spends outside of steps (sending, reading, waking up) is measured on the idle
engine and added to simulated first tokens.

throughput_error, p0_ttft_p90_error: |simulated / measured - 1|, the worst of the compared traces.
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
from bench.step_fit import Fit, fit_steps
from bench.steps import within
from lanes.lane import Lane
from lanes.policy import DEFAULT
from lanes.sim.arrivals import poisson
from lanes.sim.run import simulate
from lanes.sim.values import SimRequest, SimRun, SimShape

BARS = {
    "throughput_error": Bar(0.10, 0.05, less_is_better=True),
    "p0_ttft_p90_error": Bar(0.20, 0.10, less_is_better=True),
}
SEED = 20261201
IDLE_REQUESTS = 20


@dataclass(frozen=True, slots=True)
class Scale:
    fitted: int  # traces
    compared: int  # traces
    p2_requests: int  # of a trace, all sent at once
    p0_per_second: float
    p0_seconds: float  # for how long P0 requests come


SCALES = {"quick": Scale(1, 2, 300, 1.5, 25), "full": Scale(2, 4, 600, 1.5, 60)}


@dataclass(frozen=True, slots=True)
class Pair:
    """One trace, measured and simulated: output tokens/s, and P0's TTFT in seconds."""

    rate: float
    simulated_rate: float
    ttft: Sequence[float]
    simulated_ttft: Sequence[float]

    @property
    def rate_error(self) -> float:
        return abs(self.simulated_rate / self.rate - 1)

    @property
    def ttft_error(self) -> float:
        return abs(quantile(self.simulated_ttft, 0.9) / quantile(self.ttft, 0.9) - 1)


def run(scale: str) -> Result:
    """Measure. Needs the demo model where `make setup` puts it."""
    size = SCALES[scale]
    with engines(OURS) as (side,):
        outside_s = _outside_steps(side)
        for number in range(size.fitted):
            side.do(_trace(size, random.Random(SEED + number)))  # noqa: S311 - a workload only
        pairs = []
        for number in range(size.fitted, size.fitted + size.compared):
            fit = fit_steps(side.steps(), random.Random(SEED))  # noqa: S311 - an order only
            report = side.do(_trace(size, random.Random(SEED + number)))  # noqa: S311 - as above
            pairs.append(_compare(report, side.shape, fit, outside_s))
            _tell(pairs[-1])
        steps = len(side.steps())
    return Result(
        bench="step_simulator",
        figures={
            "throughput_error": round(max(pair.rate_error for pair in pairs), 3),
            "p0_ttft_p90_error": round(max(pair.ttft_error for pair in pairs), 3),
        },
        spread={
            "measured_tokens_per_s": spread_of([pair.rate for pair in pairs]),
            "simulated_tokens_per_s": spread_of([pair.simulated_rate for pair in pairs]),
            "measured_p0_ttft_s": spread_of([ttft for pair in pairs for ttft in pair.ttft]),
            "simulated_p0_ttft_s": spread_of([ttft for pair in pairs for ttft in pair.simulated_ttft]),
        },
        about={
            **about_engines(SEED),
            **asdict(size),
            "outside_steps_ms": round(1000 * outside_s, 1),
            "steps": steps,
            "fitted_weights": [round(weight, 2) for weight in fit.clock.weights],
            "fit_error": round(fit.error, 3),
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


def _compare(report: Report, shape: SimShape, fit: Fit, outside_s: float) -> Pair:
    run = simulate(
        [_request(number, answer, report.begin) for number, answer in enumerate(report.answers)],
        shape,
        DEFAULT.step,
        clock=fit.clock,
        planner=fit.planner,
        stretch=fit.stretch,
        pause_ms=fit.pause_ms,
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
