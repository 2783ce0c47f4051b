"""How long a fair claim of 32 takes: at a long queue against a short one, and against a bare claim.

Two databases with the same tenants on one PostgreSQL, one with 1,000 queued jobs and one with
1,000,000. The claims on both and the bare SKIP LOCKED claims on the same tables take turns, 1 or 8
at once; after each turn, out of the clock, what was claimed is ended as workers do and as many jobs
are queued anew, so that the queues keep their lengths. Of all settings the worst is the figure.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass

from bench.long_queue import SLICE, Claimed, LongQueue
from bench.quantiles import quantile
from bench.result import Bar, Result, spread_of
from bench.scratch import scratch_servers
from db.embedded import EmbeddedServers
from db.objects import Objects
from lanes.policy import DEFAULT

BARS = {
    "p50_ratio": Bar(1.15, 1.05, less_is_better=True),
    "p99_ratio": Bar(1.5, 1.2, less_is_better=True),
    "over_bare": Bar(4, 2, less_is_better=True),
}
CLAIMERS = (1, 8)


@dataclass(frozen=True, slots=True)
class Scale:
    tenants: tuple[int, ...]
    short: int  # jobs
    long: int
    samples: int  # of each side and setting
    warm_up: int  # turns that do not count


SCALES = {
    "quick": Scale((1_000, 10_000), 1_000, 1_000_000, samples=320, warm_up=10),
    "full": Scale((1_000, 10_000), 1_000, 1_000_000, samples=2_400, warm_up=20),
}


@dataclass(frozen=True, slots=True)
class Setting:
    """Milliseconds of each claim in one setting, by side."""

    tenants: int
    claimers: int
    millis: Mapping[str, Sequence[float]]  # fair_short, fair_long, bare_short, bare_long

    @property
    def name(self) -> str:
        return f"{self.tenants}_tenants_{self.claimers}_at_once"

    def ratio(self, share: float) -> float:
        """The fair claim at the long queue over the one at the short queue, at a percentile."""
        return quantile(self.millis["fair_long"], share) / quantile(self.millis["fair_short"], share)

    @property
    def over_bare(self) -> float:
        """The median of the fair claim over that of the bare one, at the worse of the two lengths."""
        medians = {side: statistics.median(values) for side, values in self.millis.items()}
        return max(medians[f"fair_{length}"] / medians[f"bare_{length}"] for length in ("short", "long"))


def run(scale: str) -> Result:
    """Measure every setting; takes about 1 GB of disk below /tmp."""
    return measure(SCALES[scale])


def measure(size: Scale) -> Result:
    with scratch_servers() as (folder, servers):
        objects = Objects((folder / "objects").as_uri())
        settings = [
            setting
            for tenants in size.tenants
            for setting in asyncio.run(_settings(servers, objects, size, tenants))
        ]
    return summary(settings, size)


def summary(settings: Sequence[Setting], size: Scale) -> Result:
    return Result(
        bench="claim_latency",
        figures={
            "p50_ratio": round(max(setting.ratio(0.5) for setting in settings), 3),
            "p99_ratio": round(max(setting.ratio(0.99) for setting in settings), 3),
            "over_bare": round(max(setting.over_bare for setting in settings), 3),
        },
        spread={
            f"{side}_{setting.name}_ms": spread_of(values)
            for setting in settings
            for side, values in setting.millis.items()
        },
        about={
            "p99_ms": {
                f"{side}_{setting.name}": round(quantile(values, 0.99), 2)
                for setting in settings
                for side, values in setting.millis.items()
            },
            "by_setting": {
                setting.name: {
                    "p50_ratio": round(setting.ratio(0.5), 3),
                    "p99_ratio": round(setting.ratio(0.99), 3),
                    "over_bare": round(setting.over_bare, 3),
                }
                for setting in settings
            },
            "slice": SLICE,
            "policy": DEFAULT.version,
            "seed": "none: the queue is filled by rule",
            **asdict(size),
        },
    )


async def _settings(servers: EmbeddedServers, objects: Objects, size: Scale, tenants: int) -> list[Setting]:
    """The settings of one number of tenants, on one pair of databases."""
    connections = max(CLAIMERS) + 1
    async with (
        LongQueue(servers, tenants=tenants, jobs=size.short, connections=connections) as short,
        LongQueue(servers, tenants=tenants, jobs=size.long, connections=connections) as long,
    ):
        print(f"{tenants} tenants: {size.short} and {size.long} jobs are queued", file=sys.stderr, flush=True)
        return [
            await _setting(Setting(tenants, claimers, {}), short, long, objects, size)
            for claimers in CLAIMERS
        ]


async def _setting(
    setting: Setting, short: LongQueue, long: LongQueue, objects: Objects, size: Scale
) -> Setting:
    sides: dict[str, tuple[LongQueue, Callable[[], Awaitable[Claimed]]]] = {
        "fair_short": (short, short.fair_claim),
        "fair_long": (long, long.fair_claim),
        "bare_short": (short, short.bare_claim),
        "bare_long": (long, long.bare_claim),
    }
    millis: dict[str, list[float]] = {side: [] for side in sides}
    for turn in range(size.warm_up + -(-size.samples // setting.claimers)):
        for side, (queue, claim) in sides.items():
            claims = await asyncio.gather(*(claim() for _ in range(setting.claimers)))
            await queue.replace(claims, objects)
            if turn >= size.warm_up:
                millis[side] += [claimed.seconds * 1000 for claimed in claims]
    medians = {side: round(statistics.median(values), 2) for side, values in millis.items()}
    print(f"{setting.name}: median ms {medians}", file=sys.stderr, flush=True)
    return Setting(setting.tenants, setting.claimers, millis)
