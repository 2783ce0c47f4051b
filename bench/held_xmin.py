"""Claims/s while another transaction holds an old snapshot, over claims/s without one.

Such a transaction (a report, a backup) keeps every dead row version of its database from being
removed. Two like databases on one PostgreSQL take turns; in one a transaction is held from the
beginning. Jobs are claimed, ended and queued anew all the while. Only the last third of the time
counts, when the dead rows are most, and of the clock only what the claims took. Of the settings
(few tenants with long batches, many with short ones) the worst is the figure.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import psycopg

from bench.long_queue import SLICE, LongQueue
from bench.result import Bar, Result, spread_of
from bench.scratch import scratch_servers
from db.embedded import EmbeddedServers
from db.objects import Objects
from lanes.policy import DEFAULT

BARS = {"ratio": Bar(0.90, 0.95)}
_BLOCK = 10  # claims of one side before the other has its turn


@dataclass(frozen=True, slots=True)
class Scale:
    tenants: tuple[int, ...]
    jobs: int
    seconds: float  # of each setting, all of it with the transaction held


SCALES = {
    "quick": Scale((10, 1_000), 100_000, seconds=110),
    "full": Scale((10, 1_000), 100_000, seconds=600),
}


@dataclass(frozen=True, slots=True)
class Setting:
    """Claims/s of each block of the last third, both sides, and the dead rows at the end."""

    tenants: int
    held: Sequence[float]
    free: Sequence[float]
    claims: int  # of both sides in all
    dead_rows: dict[str, int]

    @property
    def ratio(self) -> float:
        """Blocks are of equal size, so the rate of many is the harmonic mean of theirs."""
        return harmonic(self.held) / harmonic(self.free)


def harmonic(rates: Sequence[float]) -> float:
    return len(rates) / sum(1 / rate for rate in rates)


def run(scale: str) -> Result:
    return measure(SCALES[scale])


def measure(size: Scale) -> Result:
    with scratch_servers() as (folder, servers):
        objects = Objects((folder / "objects").as_uri())
        settings = [asyncio.run(_setting(servers, objects, size, tenants)) for tenants in size.tenants]
    return summary(settings, size)


def summary(settings: Sequence[Setting], size: Scale) -> Result:
    return Result(
        bench="held_xmin",
        figures={"ratio": round(min(setting.ratio for setting in settings), 3)},
        spread={
            f"{side}_{setting.tenants}_tenants_claims_per_s": spread_of(rates)
            for setting in settings
            for side, rates in (("held", setting.held), ("free", setting.free))
        },
        about={
            "by_setting": {
                f"{setting.tenants}_tenants": {
                    "ratio": round(setting.ratio, 3),
                    "claims": setting.claims,
                    "dead_rows": setting.dead_rows,
                }
                for setting in settings
            },
            "slice": SLICE,
            "policy": DEFAULT.version,
            "seed": "none: the queue is filled by rule",
            **asdict(size),
        },
    )


async def _setting(servers: EmbeddedServers, objects: Objects, size: Scale, tenants: int) -> Setting:
    async with (
        LongQueue(servers, tenants=tenants, jobs=size.jobs, connections=2) as held,
        LongQueue(servers, tenants=tenants, jobs=size.jobs, connections=2) as free,
    ):
        with psycopg.connect(held.url) as holder:
            holder.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            holder.execute("SELECT count(*) FROM turnstiles")  # the snapshot is taken here
            blocks = await _blocks({"held": held, "free": free}, objects, size.seconds)
            dead = {"held": _dead_rows(held.url), "free": _dead_rows(free.url)}
    last = {side: _last_third(found, size.seconds) for side, found in blocks.items()}
    setting = Setting(tenants, last["held"], last["free"], _BLOCK * sum(map(len, blocks.values())), dead)
    print(f"{tenants} tenants: ratio {setting.ratio:.3f}, dead rows {dead}", file=sys.stderr, flush=True)
    return setting


async def _blocks(
    queues: dict[str, LongQueue], objects: Objects, seconds: float
) -> dict[str, list[tuple[float, float]]]:
    """For each side: when a block began, in seconds from the beginning, and its claims/s."""
    found: dict[str, list[tuple[float, float]]] = {side: [] for side in queues}
    began = time.perf_counter()
    while (at := time.perf_counter() - began) < seconds:
        for side, queue in queues.items():
            spent = 0.0
            for _ in range(_BLOCK):
                claimed = await queue.fair_claim()
                spent += claimed.seconds
                await queue.replace([claimed], objects)
            found[side].append((at, _BLOCK / spent))
    return found


def _last_third(blocks: Sequence[tuple[float, float]], seconds: float) -> list[float]:
    return [rate for at, rate in blocks if at >= seconds * 2 / 3]


def _dead_rows(url: str) -> int:
    """Dead rows of the live tables, as the statistics have them."""
    with psycopg.connect(url) as connection:
        row = connection.execute(
            "SELECT sum(n_dead_tup) FROM pg_stat_user_tables"
            " WHERE relname IN ('jobs', 'lane_accounts', 'account_deltas')"
        ).fetchone()
    return int(row[0]) if row else 0
