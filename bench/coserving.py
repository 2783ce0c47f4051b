"""Output tokens/s of P0 and P2 together over those of P2 alone, with P0 at 30% of the latter.

Ours is the product's engine with its lane scheduler; vLLM's own priority policy takes turns with
it, for the record. In a turn the backlog runs alone before and after P0, as the machine's own pace
drifts. Between the two P0 requests arrive at times drawn beforehand (a Poisson process) whatever
becomes of those before them, and their latency counts from when they were meant to be sent.
Arrivals start `lead_s` before the measured span, so that as many P0 requests run in it as ever will.
"""

from __future__ import annotations

import random
import statistics
import sys
from dataclasses import asdict, dataclass, field

from bench.engine_side import EngineSide
from bench.engines_under_test import OURS, OUTPUT_TOKENS, STOCK, about_engines, clients, end_turn, engines
from bench.phase import Backlog, Quiet, Report, Send, Trace
from bench.quantiles import quantile
from bench.result import Bar, Result, spread_of
from bench.steps import between, p2_rate
from lanes.lane import Lane
from lanes.sim.arrivals import poisson

BARS = {"ratio": Bar(0.85, 0.95)}
SEED = 20261130
P0_SHARE = 0.30
P0_TOKENS = 64  # of a P0 answer


@dataclass(frozen=True, slots=True)
class Scale:
    rounds: int
    ramp_s: float  # for the backlog to fill every seat and to spread out
    alone_s: float  # of P2 alone, measured, each time
    lead_s: float
    both_s: float  # of both lanes, measured
    settle_s: float  # for the last P0 requests' seats to fill again


SCALES = {"quick": Scale(2, 8, 8, 6, 20, 5), "full": Scale(5, 12, 15, 10, 45, 8)}


@dataclass(slots=True)
class Seen:
    """What one side showed; one value a round, or one a P0 request."""

    alone: list[float] = field(default_factory=list)  # tokens/s
    p0: list[float] = field(default_factory=list)
    p2: list[float] = field(default_factory=list)
    ttft: list[float] = field(default_factory=list)  # seconds
    per_token: list[float] = field(default_factory=list)

    @property
    def ratios(self) -> list[float]:
        return [(p0 + p2) / alone for alone, p0, p2 in zip(self.alone, self.p0, self.p2, strict=True)]


def run(scale: str) -> Result:
    """Measure. Needs the demo model where `make setup` puts it."""
    size = SCALES[scale]
    seen = {OURS: Seen(), STOCK: Seen()}
    with engines(OURS, STOCK) as sides:
        for number in range(1, size.rounds + 1):
            for side in sides:
                _turn(side, size, random.Random(SEED + number), seen[side.name])  # noqa: S311 - arrivals only
                print(
                    f"{side.name}, round {number}: {_summary(seen[side.name])}", file=sys.stderr, flush=True
                )
    return Result(
        bench="coserving",
        figures={"ratio": round(statistics.median(seen[OURS].ratios), 3)},
        spread={
            f"{name}_{series}": spread_of(getattr(seen[name], attribute))
            for name in seen
            for series, attribute in _SERIES.items()
        },
        about={
            **about_engines(SEED),
            **asdict(size),
            "p0_share": P0_SHARE,
            "p0_output_tokens": P0_TOKENS,
            "sides": {name: _summary(seen[name]) for name in seen},
        },
    )


_SERIES = {
    "ratio": "ratios",
    "p2_alone_tokens_per_s": "alone",
    "p0_tokens_per_s": "p0",
    "p2_tokens_per_s": "p2",
    "p0_ttft_s": "ttft",
    "p0_s_per_token": "per_token",
}


def _turn(side: EngineSide, size: Scale, chance: random.Random, seen: Seen) -> None:
    side.do(Backlog(clients(), OUTPUT_TOKENS))
    side.do(Quiet(size.ramp_s))
    before = side.do(Quiet(size.alone_s))
    per_second = P0_SHARE * p2_rate(side.steps(), before) / P0_TOKENS
    report = side.do(_arrivals(per_second, size.lead_s + size.both_s, chance))
    side.do(Quiet(size.settle_s))
    after = side.do(Quiet(size.alone_s))
    end_turn(side)
    span = Report(report.begin + size.lead_s, report.begin + size.lead_s + size.both_s)
    steps = between(side.steps(), span.begin, span.end)
    seen.alone.append(statistics.mean(p2_rate(side.steps(), quiet) for quiet in (before, after)))
    seen.p0.append(sum(step.p0_sampled for step in steps) / size.both_s)
    seen.p2.append(sum(step.p2_sampled for step in steps) / size.both_s)
    measured = [answer for answer in report.answers if span.begin <= answer.sent < span.end]
    seen.ttft += [answer.ttft for answer in measured]
    seen.per_token += [answer.per_token for answer in measured]


def _arrivals(per_second: float, seconds: float, chance: random.Random) -> Trace:
    draws = [chance.random() for _ in range(int(3 * per_second * seconds) + 10)]
    times = [at for at in poisson(draws, per_second) if at < seconds]
    return Trace(tuple(Send(at, Lane.INTERACTIVE, P0_TOKENS) for at in times))


def _summary(seen: Seen) -> dict[str, float]:
    return {
        "ratio": round(statistics.median(seen.ratios), 3),
        "p2_alone_tokens_per_s": round(statistics.median(seen.alone)),
        "p0_tokens_per_s": round(statistics.median(seen.p0)),
        "p2_tokens_per_s": round(statistics.median(seen.p2)),
        "p0_requests": len(seen.ttft),
        "p0_ttft_p50_ms": round(1000 * quantile(seen.ttft, 0.5)),
        "p0_ttft_p95_ms": round(1000 * quantile(seen.ttft, 0.95)),
        "p0_ms_per_token_p50": round(1000 * quantile(seen.per_token, 0.5)),
    }
