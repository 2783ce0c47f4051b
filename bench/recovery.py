"""How long the jobs of a killed worker wait until all of them run elsewhere.

A worker on the simulated engine holds two slices of jobs that never end by themselves; another one
stands ready with free seats. The first is killed with SIGKILL at a chance moment between two of its
heartbeats; the sample ends with the last of its jobs leased by the other, by the database's clock.
Then the other is the one to be killed. In units of one lease and one sweep, which the product
promises as the most.
"""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import NamedTuple
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from bench.parts import Parts, stop
from bench.quantiles import quantile
from bench.result import Bar, Result, spread_of
from bench.scratch import scratch_servers
from db.connect import Role, connect
from db.deployments import register_deployment
from db.keys import create_tenant
from db.settings import with_driver
from lanes.policy import DEFAULT
from migrations.run import upgrade
from workers.maintenance.schedule import SCHEDULE, SWEEP_TASK

BARS = {"p95_leases": Bar(1.0, 0.7, less_is_better=True)}
MODEL = "bench"
JOBS = 2 * DEFAULT.slice_jobs
SEED = 20260
LEASE_AND_SWEEP_SECONDS = DEFAULT.lease_seconds + float(SCHEDULE[SWEEP_TASK]["schedule"])
_WAIT_SECONDS = 120
_LOOK_SECONDS = 0.1
_WORKER = {"FAIRLANE_ENGINE": "simulated", "FAIRLANE_SIMULATED_SPEED": "0.1"}  # of minutes and not seconds
_NOW = text("SELECT clock_timestamp()")
_HELD = text("""
SELECT count(*) FROM jobs JOIN replicas USING (boot_id) WHERE replicas.pid = :pid AND jobs.state = 'running'
""")
# Seconds from the kill to the end of the dead worker's lease, from there to the sweep that noticed,
# and from there to the lease of the last job by the other.
_STAGES = text("""
SELECT extract(epoch FROM lease_until - :killed), extract(epoch FROM stopped_at - lease_until),
    extract(epoch FROM (SELECT max(claimed_at) FROM jobs) - stopped_at)
FROM replicas WHERE pid = :pid ORDER BY started_at DESC LIMIT 1
""")


class Recovery(NamedTuple):
    """Seconds that the jobs of one killed worker waited, in three parts."""

    lease: float
    sweep: float
    claim: float

    @property
    def seconds(self) -> float:
        return self.lease + self.sweep + self.claim


@dataclass(frozen=True, slots=True)
class Scale:
    kills: int


SCALES = {"quick": Scale(12), "full": Scale(60)}


def run(scale: str) -> Result:
    return measure(SCALES[scale])


def measure(size: Scale) -> Result:
    with scratch_servers() as (folder, servers):
        upgrade(servers.database_url)
        parts = Parts(servers, folder, MODEL)
        with parts.running("workers.maintenance"):
            found = asyncio.run(_kills(parts, size))
    return summary(found, size)


def summary(found: Sequence[Recovery], size: Scale) -> Result:
    seconds = [recovery.seconds for recovery in found]
    return Result(
        bench="recovery",
        figures={"p95_leases": round(quantile(seconds, 0.95) / LEASE_AND_SWEEP_SECONDS, 3)},
        spread={
            "seconds": spread_of(seconds),
            "until_lease_end_s": spread_of([recovery.lease for recovery in found]),
            "until_noticed_s": spread_of([recovery.sweep for recovery in found]),
            "until_claimed_s": spread_of([recovery.claim for recovery in found]),
        },
        about={
            "lease_and_sweep_s": LEASE_AND_SWEEP_SECONDS,
            "jobs_of_a_worker": JOBS,
            "policy": DEFAULT.version,
            "seed": SEED,
            **asdict(size),
        },
    )


async def _kills(parts: Parts, size: Scale) -> list[Recovery]:
    """Kill one worker after the other; how long each one's jobs waited."""
    chance = random.Random(SEED)  # noqa: S311  # the moments of the kills are no secret
    database = connect(with_driver(parts.servers.database_url), Role.ENGINE, connections=2, name="bench")
    worker = other = None
    try:
        await _submit(parts, database)
        worker = parts.start("workers.gpu", _WORKER)
        await _all_held(database, worker)
        found = []
        for number in range(1, size.kills + 1):
            other = parts.start("workers.gpu", _WORKER)
            await asyncio.sleep(chance.uniform(0, DEFAULT.beat_seconds))
            async with database.begin() as connection:
                killed = (await connection.execute(_NOW)).scalar_one()
            worker.kill()
            worker.wait()
            await _all_held(database, other)
            async with database.begin() as connection:
                stages = await connection.execute(_STAGES, {"killed": killed, "pid": worker.pid})
            found.append(Recovery(*map(float, stages.one())))
            print(f"kill {number}: {found[-1]}", file=sys.stderr, flush=True)
            worker, other = other, None
        return found
    finally:
        for process in (worker, other):
            if process is not None:
                process.kill()  # at once: nobody waits for these jobs
                stop(process)
        await database.dispose()


async def _submit(parts: Parts, database: AsyncEngine) -> UUID:
    async with database.begin() as connection:
        await register_deployment(connection, MODEL, "simulated", 8192)
        tenant_id = await create_tenant(connection, "bench")
    messages = [{"role": "user", "content": "word " * 40}]
    line = {
        "method": "POST",
        "url": "/v1/chat/completions",
        "body": {"model": MODEL, "messages": messages, "max_tokens": 4096, "ignore_eos": True},
    }
    data = "".join(json.dumps({"custom_id": f"{n}", **line}) + "\n" for n in range(JOBS))
    return await parts.submit(database, tenant_id, data.encode())


async def _all_held(database: AsyncEngine, worker: subprocess.Popen[bytes]) -> None:
    """Wait until this worker runs all jobs.

    Raises:
        TimeoutError: it did not come to that.
    """
    deadline = time.monotonic() + _WAIT_SECONDS
    while time.monotonic() < deadline:
        async with database.begin() as connection:
            held = (await connection.execute(_HELD, {"pid": worker.pid})).scalar_one()
        if held == JOBS:
            return
        await asyncio.sleep(_LOOK_SECONDS)
    raise TimeoutError(f"the worker runs {held} of {JOBS} jobs after {_WAIT_SECONDS} s")
