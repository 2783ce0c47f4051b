"""What fairness costs: P2 output tokens/s on real vLLM, by the fair plan over a plan in order of arrival.

One worker with one engine runs the same kind of work by turns: eight tenants of weights 1 to 8, one
batch each. Only the plan of the claims differs; seats, slices and all else are the same. A turn
counts from the first request in the engine to the last outcome committed.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from bench.gsm8k import questions, write_batch
from bench.parts import Parts
from bench.plan_switch import FAIR, FIFO, PLAN_FILE
from bench.result import Bar, Result, spread_of
from bench.sample import Sample
from bench.scratch import scratch_servers
from db.connect import Role, connect
from db.deployments import register_deployment
from db.keys import create_tenant
from db.settings import DEMO_MODEL, demo_model_folder, with_driver
from lanes.policy import DEFAULT
from migrations.run import upgrade
from workers.engines.choice import vllm_settings

BARS = {"ratio": Bar(0.99, 1.0)}
TENANTS = 8
OUTPUT_TOKENS = 64
_WARM_UP_LINES = 16
_TURN_SECONDS = 900
_LOOK_SECONDS = 2.0  # seldom: whoever looks takes time from the engine
_OPEN = text("SELECT count(*) FROM batches WHERE status <> 'completed'")
_FAILED = text("SELECT count(*) FROM jobs_done WHERE state <> 'succeeded'")
_MEASURE = text("""
SELECT sum(output_tokens), extract(epoch FROM max(finished_at) - min(started_at))
FROM jobs_done WHERE batch_id = ANY(:batches)
""")


@dataclass(frozen=True, slots=True)
class Scale:
    pairs: int  # of a turn of each plan; which one is first alternates
    lines: int  # of a turn


SCALES = {"quick": Scale(pairs=3, lines=200), "full": Scale(6, 104)}


def run(scale: str) -> Result:
    """Measure. Needs the demo model where `make setup` puts it.

    Raises:
        FileNotFoundError: the model is not there.
    """
    model = demo_model_folder(os.environ)
    if not model.is_dir():
        raise FileNotFoundError(f"the demo model is not in {model}; `make setup` puts it there")
    environment = {"FAIRLANE_ENGINE": "vllm", "FAIRLANE_MODEL": str(model)}
    return measure(SCALES[scale], environment, vllm_settings(str(model), DEMO_MODEL).arguments()[4:])


def measure(size: Scale, environment: dict[str, str], engine: Sequence[str]) -> Result:
    """Run the turns on a worker with this environment; `engine` says in words what it runs."""
    with scratch_servers() as (folder, servers):
        upgrade(servers.database_url)
        parts = Parts(servers, folder, DEMO_MODEL)
        samples = asyncio.run(_turns(parts, size, environment))
    return summary(samples, size, engine)


def summary(samples: dict[str, list[Sample]], size: Scale, engine: Sequence[str]) -> Result:
    rates = {plan: [sample.rate for sample in found] for plan, found in samples.items()}
    return Result(
        bench="fairness_cost",
        figures={"ratio": round(statistics.median(rates[FAIR]) / statistics.median(rates[FIFO]), 3)},
        spread={f"{plan}_tokens_per_s": spread_of(found) for plan, found in rates.items()},
        about={
            "engine_arguments": engine,
            "model": DEMO_MODEL,
            "policy": DEFAULT.version,
            "seed": "none: greedy decoding, fixed questions",
            "tenants": TENANTS,
            "output_tokens": OUTPUT_TOKENS,
            **asdict(size),
        },
    )


def order(pairs: int) -> list[str]:
    """The plans of all turns: fair first in every other pair, so that a drift of the machine cancels."""
    return [plan for number in range(pairs) for plan in ((FAIR, FIFO) if number % 2 == 0 else (FIFO, FAIR))]


async def _turns(parts: Parts, size: Scale, environment: dict[str, str]) -> dict[str, list[Sample]]:
    database = connect(with_driver(parts.servers.database_url), Role.ENGINE, connections=2, name="bench")
    plan_file = parts.folder / "plan"
    plan_file.write_text(FAIR)
    texts = questions()
    samples: dict[str, list[Sample]] = {FAIR: [], FIFO: []}
    try:
        async with database.begin() as connection:
            await register_deployment(connection, DEMO_MODEL, environment["FAIRLANE_ENGINE"], 8192)
            tenants = [
                await create_tenant(connection, f"tenant {n}", 1 + n % TENANTS) for n in range(TENANTS)
            ]
        with (
            parts.running("workers.maintenance"),
            parts.running("bench.plan_switch", **environment, **{PLAN_FILE: str(plan_file)}),
        ):
            await _turn(parts, database, tenants, texts[:_WARM_UP_LINES])
            start = _WARM_UP_LINES
            for plan in order(size.pairs):
                plan_file.write_text(plan)
                # No question twice, so that no turn meets a warm prefix cache.
                sample = await _turn(parts, database, tenants, texts[start : start + size.lines])
                start += size.lines
                samples[plan].append(sample)
                print(f"{plan}: {sample.rate:.0f} tokens/s", file=sys.stderr, flush=True)
    finally:
        await database.dispose()
    return samples


async def _turn(parts: Parts, database: AsyncEngine, tenants: Sequence[UUID], texts: Sequence[str]) -> Sample:
    """One batch for each tenant, dealt out like cards; waits for all of them.

    Raises:
        TimeoutError: they did not end in time.
        ValueError: a line failed.
    """
    batches = []
    for number, tenant_id in enumerate(tenants):
        path = parts.folder / "in.jsonl"
        write_batch(path, texts[number::TENANTS], model=DEMO_MODEL, output_tokens=OUTPUT_TOKENS)
        batches.append(await parts.submit(database, tenant_id, path.read_bytes()))
    deadline = time.monotonic() + _TURN_SECONDS
    while time.monotonic() < deadline:
        await asyncio.sleep(_LOOK_SECONDS)
        async with database.begin() as connection:
            if (await connection.execute(_OPEN)).scalar_one():
                continue
            failed = (await connection.execute(_FAILED)).scalar_one()
            if failed:
                raise ValueError(f"{failed} lines failed")
            tokens, seconds = (await connection.execute(_MEASURE, {"batches": batches})).one()
            return Sample(int(tokens), float(seconds))
    raise TimeoutError(f"a turn took longer than {_TURN_SECONDS} s")
