"""How long a P0 request waits for its first token beside a saturating P2 backlog, and what P2 keeps.

Ours is the product's engine with its lane scheduler, stock the same engine with vLLM's own priority
policy. Both are loaded at once and take turns. In a turn P0 requests come one by one with random
gaps, first to the idle engine, then beside the backlog. `p2_kept` lets P0 requests follow one
another without a gap, at the policy's `max_step_ms`, and for the trade-off also below and above it.

p50_steps, p95_steps: (TTFT under load - median idle TTFT) over the median step without P0.
stock_p95_ratio: p95 of stock's TTFT under load over ours. p2_kept: median over the rounds.
"""

from __future__ import annotations

import random
import statistics
import sys
from collections import defaultdict
from dataclasses import asdict, dataclass, field

from bench.engine_side import EngineSide
from bench.engines_under_test import (
    FCFS,
    OURS,
    OUTPUT_TOKENS,
    STOCK,
    about_engines,
    clients,
    end_turn,
    engines,
)
from bench.phase import Backlog, OneByOne, Quiet, Turn
from bench.quantiles import quantile
from bench.result import Bar, Result, spread_of
from bench.steps import between, p2_rate, p2_step_seconds
from lanes.policy import DEFAULT

BARS = {
    "p50_steps": Bar(0.6, 0.35, less_is_better=True),
    "p95_steps": Bar(1.2, 0.7, less_is_better=True),
    "stock_p95_ratio": Bar(10, 25),
    "p2_kept": Bar(0.35, 0.5),
}
SEED = 20261129
WARM_UP = 3
FCFS_SAMPLES = 5
STEP_MS_FACTORS = (0.7, 1.0, 1.5)  # of the policy's max_step_ms


@dataclass(frozen=True, slots=True)
class Scale:
    rounds: int
    samples: int  # P0 requests of each side in a round, idle and under load
    gapless: int  # P0 requests in a row at each max_step_ms in a round, after one that is not counted
    tokens: int  # of a P0 answer where only its first token is measured
    ramp_s: float  # for the backlog to fill every seat and to spread out
    alone_s: float  # of P2 alone, measured


SCALES = {
    "quick": Scale(rounds=2, samples=16, gapless=4, tokens=1, ramp_s=8, alone_s=6),
    "full": Scale(rounds=4, samples=30, gapless=5, tokens=4, ramp_s=8, alone_s=8),
}
GAPLESS_TOKENS = 24


@dataclass(slots=True)
class Seen:
    """What one side showed, over all rounds."""

    idle: list[float] = field(default_factory=list)  # TTFT, seconds
    busy: list[float] = field(default_factory=list)
    alone: list[float] = field(default_factory=list)  # P2 tokens/s, one a round
    step: list[float] = field(default_factory=list)  # median seconds of a step without P0, one a round
    kept: dict[float, list[float]] = field(default_factory=lambda: defaultdict(list))  # by max_step_ms
    gapless: dict[float, list[float]] = field(default_factory=lambda: defaultdict(list))  # TTFT
    per_token: dict[float, list[float]] = field(default_factory=lambda: defaultdict(list))

    def steps_behind(self, share: float) -> float:
        """Wait under load, beyond the idle one, in steps of P2."""
        return (quantile(self.busy, share) - statistics.median(self.idle)) / statistics.median(self.step)


def run(scale: str) -> Result:
    """Measure. Needs the demo model where `make setup` puts it."""
    size = SCALES[scale]
    chance = random.Random(SEED)  # noqa: S311 - gaps between requests, not secrets
    seen = {OURS: Seen(), STOCK: Seen()}
    with engines(OURS, STOCK) as sides:
        for number in range(1, size.rounds + 1):
            for side in sides:
                _turn(side, size, chance, seen[side.name], number)
                _tell(side.name, number, seen[side.name])
    ours, stock = seen[OURS], seen[STOCK]
    policy_ms = DEFAULT.step.max_step_ms
    fcfs = _fcfs(size) if scale == "full" else []
    spread = {
        f"{name}_ttft_{kind}_s": spread_of(getattr(seen[name], kind))
        for name in seen
        for kind in ("idle", "busy")
    }
    spread |= {f"{name}_p2_alone_tokens_per_s": spread_of(seen[name].alone) for name in seen}
    spread["p2_kept"] = spread_of(ours.kept[policy_ms])
    if fcfs:
        spread["stock_fcfs_ttft_busy_s"] = spread_of(fcfs)
    return Result(
        bench="p0_under_load",
        figures={
            "p50_steps": round(ours.steps_behind(0.5), 3),
            "p95_steps": round(ours.steps_behind(0.95), 3),
            "stock_p95_ratio": round(quantile(stock.busy, 0.95) / quantile(ours.busy, 0.95), 2),
            "p2_kept": round(statistics.median(ours.kept[policy_ms]), 3),
        },
        spread=spread,
        about={
            **about_engines(SEED),
            **asdict(size),
            "p2_step_ms": round(1000 * statistics.median(ours.step), 1),
            "ttft_ms": {name: _milliseconds(seen[name]) for name in seen},
            "trade_off": {f"max_step_ms {ms:g}": _trade_off(ours, ms) for ms in sorted(ours.kept)},
        },
    )


def _turn(side: EngineSide, size: Scale, chance: random.Random, seen: Seen, number: int) -> None:
    side.do(OneByOne((0.0,) * WARM_UP, size.tokens))
    seen.idle += [answer.ttft for answer in side.do(_spaced(size, chance)).answers]
    side.do(Backlog(clients(), OUTPUT_TOKENS))
    side.do(Quiet(size.ramp_s))
    alone = side.do(Quiet(size.alone_s))
    busy = side.do(_spaced(size, chance))
    seen.busy += [answer.ttft for answer in busy.answers]
    rate = p2_rate(side.steps(), alone)
    seen.alone.append(rate)
    seen.step.append(p2_step_seconds(between(side.steps(), alone.begin, busy.end)))
    if side.name == OURS:
        for factor in (*STEP_MS_FACTORS[number % 3 :], *STEP_MS_FACTORS[: number % 3]):
            _gapless(side, size, factor * DEFAULT.step.max_step_ms, rate, seen)
        side.do(Turn(DEFAULT.step.max_step_ms))
    end_turn(side)


def _spaced(size: Scale, chance: random.Random) -> OneByOne:
    return OneByOne(tuple(chance.uniform(0.1, 0.6) for _ in range(size.samples)), size.tokens)


def _gapless(side: EngineSide, size: Scale, step_ms: float, alone: float, seen: Seen) -> None:
    side.do(Turn(step_ms))
    side.do(OneByOne((0.0,), GAPLESS_TOKENS))  # the change of pace: P2 is not yet in its new rhythm
    report = side.do(OneByOne((0.0,) * size.gapless, GAPLESS_TOKENS))
    seen.kept[step_ms].append(p2_rate(side.steps(), report) / alone)
    seen.gapless[step_ms] += [answer.ttft for answer in report.answers]
    seen.per_token[step_ms] += [answer.per_token for answer in report.answers]


def _fcfs(size: Scale) -> list[float]:
    """TTFT under load of stock vLLM without priorities, for the record."""
    with engines(FCFS) as (side,):
        side.do(Backlog(clients(), OUTPUT_TOKENS))
        side.do(Quiet(size.ramp_s))
        return [answer.ttft for answer in side.do(OneByOne((0.5,) * FCFS_SAMPLES, 1)).answers]


def _milliseconds(seen: Seen) -> dict[str, int]:
    series = {"idle": seen.idle, "busy": seen.busy}
    return {
        f"{name}_p{int(100 * share)}": round(1000 * quantile(values, share))
        for name, values in series.items()
        for share in (0.5, 0.95)
    }


def _trade_off(seen: Seen, step_ms: float) -> dict[str, float]:
    """One line of it: what P2 keeps, against P0's first and further tokens."""
    return {
        "n": len(seen.gapless[step_ms]),
        "p2_kept": round(statistics.median(seen.kept[step_ms]), 3),
        "p0_ttft_p50_ms": round(1000 * quantile(seen.gapless[step_ms], 0.5)),
        "p0_ms_per_token_p50": round(1000 * quantile(seen.per_token[step_ms], 0.5)),
    }


def _tell(name: str, number: int, seen: Seen) -> None:
    kept = {round(ms): round(values[-1], 2) for ms, values in seen.kept.items()}
    print(
        f"{name}, round {number}: {_milliseconds(seen)}, P2 alone {seen.alone[-1]:.0f} tokens/s, kept {kept}",
        file=sys.stderr,
        flush=True,
    )
