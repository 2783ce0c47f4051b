"""How far the token shares of four tenants with weights 1:2:4:8 are from those weights.

All four have more work than there is time for. The odd ones say exactly how long their answers get;
the even ones ask for more than they use, so that charges are too high until they are settled. What
counts is the cost of what ended while all four were backlogged: input tokens that no cache had, and
output tokens at the price that the policy gives them. The figure is the larger error of real vLLM
and the simulated engine.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

from openai import OpenAI
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from bench.fairlane_side import platform
from bench.gsm8k import questions
from bench.result import Bar, Result
from bench.scratch import scratch_servers
from db.connect import Role, connect
from db.keys import create_key, create_tenant
from db.settings import DEMO_MODEL, demo_model_folder, with_driver
from lanes.policy import DEFAULT

BARS = {"max_error": Bar(0.02, 0.01, less_is_better=True)}
WEIGHTS = (1, 2, 4, 8)
EXACT = {"max_tokens": 24, "ignore_eos": True}
OVER_ASKED = {"max_tokens": 96, "stop": ["."]}
SIMULATED_SPEED = "8"
_WAIT_SECONDS = 900
_LOOK_SECONDS = 1.0

_SETTLING_JOBS = 500  # more than the engine holds: what ran alone at first has ended by then

# When that many jobs had ended that were claimed while all four had work.
_BEGIN = text("""
SELECT finished_at FROM jobs_done
WHERE claimed_at > (SELECT max(in_progress_at) FROM batches HAVING count(in_progress_at) = :tenants)
ORDER BY finished_at OFFSET :settling LIMIT 1
""")
_ENDED = text("SELECT count(*) FROM jobs_done WHERE finished_at > :since")
_BACKLOGGED = text("SELECT count(DISTINCT tenant_id) FROM jobs WHERE state = 'queued'")
_NOW = text("SELECT clock_timestamp()")
_SERVED = text("""
SELECT tenant_id, sum(:input_cost * (input_tokens - cached_tokens) + :output_cost * output_tokens),
    sum(output_tokens), count(*)
FROM jobs_done WHERE finished_at > :since AND finished_at <= :until GROUP BY tenant_id
""")


@dataclass(frozen=True, slots=True)
class Scale:
    simulated_jobs: int  # that end while all are backlogged
    real_jobs: int


SCALES = {"quick": Scale(6_000, 1_800), "full": Scale(20_000, 6_000)}


@dataclass(frozen=True, slots=True)
class Served:
    """What each tenant got while all were backlogged, in the order of their weights."""

    cost: Sequence[float]
    output_tokens: Sequence[int]
    jobs: Sequence[int]

    @property
    def shares(self) -> list[float]:
        return [cost / sum(self.cost) for cost in self.cost]

    @property
    def error(self) -> float:
        """The greatest difference between a tenant's share of the cost and that of its weight."""
        wanted = [weight / sum(WEIGHTS) for weight in WEIGHTS]
        return max(abs(got - due) for got, due in zip(self.shares, wanted, strict=True))


def run(scale: str) -> Result:
    """Measure both engines. Needs the demo model where `make setup` puts it.

    Raises:
        FileNotFoundError: the model is not there.
    """
    model = demo_model_folder(os.environ)
    if not model.is_dir():
        raise FileNotFoundError(f"the demo model is not in {model}; `make setup` puts it there")
    size = SCALES[scale]
    return summary({"simulated": simulated(size), "real": real(size, model)}, size)


def simulated(size: Scale) -> Served:
    return _on_platform(
        ("--engine", "simulated"), {"FAIRLANE_SIMULATED_SPEED": SIMULATED_SPEED}, size.simulated_jobs
    )


def real(size: Scale, model: Path) -> Served:
    return _on_platform(("--engine", "vllm", "--model", str(model)), {}, size.real_jobs)


def summary(served: Mapping[str, Served], size: Scale) -> Result:
    return Result(
        bench="token_shares",
        figures={"max_error": round(max(found.error for found in served.values()), 4)},
        spread={},
        about={
            "weights": WEIGHTS,
            **{
                engine: {
                    "error": round(found.error, 4),
                    "shares": [round(share, 4) for share in found.shares],
                    "output_tokens": found.output_tokens,
                    "jobs": found.jobs,
                }
                for engine, found in served.items()
            },
            "model": DEMO_MODEL,
            "policy": DEFAULT.version,
            "seed": "none: fixed questions",
            **asdict(size),
        },
    )


def _on_platform(options: Sequence[str], environment: Mapping[str, str], jobs: int) -> Served:
    """Start `fairlane up`, hand in one batch a tenant, and measure over that many ended jobs."""
    with (
        scratch_servers() as (folder, servers),
        platform(options, folder, servers, environment) as client,
    ):
        served = asyncio.run(_served(servers.database_url, str(client.base_url), jobs))
    print(f"{' '.join(options[:2])}: error {served.error:.4f} {served}", file=sys.stderr, flush=True)
    return served


async def _served(database_url: str, base_url: str, jobs: int) -> Served:
    database = connect(with_driver(database_url), Role.ENGINE, connections=1, name="bench")
    try:
        tenants = []
        for number, weight in enumerate(WEIGHTS):
            async with database.begin() as connection:
                tenant_id = await create_tenant(connection, f"weight {weight}", weight)
                key = await create_key(connection, tenant_id, "bench")
            tenants.append(tenant_id)
            data = batch_file(jobs + jobs // 2, EXACT if number % 2 == 0 else OVER_ASKED)
            await asyncio.to_thread(_submit, OpenAI(base_url=base_url, api_key=key), data)
        return await _measure(database, tenants, jobs)
    finally:
        await database.dispose()


def batch_file(lines: int, fields: Mapping[str, Any]) -> bytes:
    """A batch file of that many questions with these fields in every body."""
    texts = itertools.islice(itertools.cycle(questions()), lines)
    return "".join(
        json.dumps(
            {
                "custom_id": f"{number}",
                "method": "POST",
                "url": "/v1/chat/completions",
                "body": {"model": DEMO_MODEL, "messages": [{"role": "user", "content": question}], **fields},
            }
        )
        + "\n"
        for number, question in enumerate(texts)
    ).encode()


def _submit(client: OpenAI, data: bytes) -> None:
    file = client.files.create(file=("in.jsonl", data), purpose="batch")
    client.batches.create(input_file_id=file.id, endpoint="/v1/chat/completions", completion_window="24h")


async def _measure(database: AsyncEngine, tenants: Sequence[UUID], jobs: int) -> Served:
    """What was served from the time when all had work until that many jobs had ended.

    Raises:
        TimeoutError: it did not come to that.
        ValueError: a tenant ran out of work, so that its share says nothing.
    """
    deadline = time.monotonic() + _WAIT_SECONDS
    since = None
    while time.monotonic() < deadline:
        await asyncio.sleep(_LOOK_SECONDS)
        async with database.begin() as connection:
            given = {"tenants": len(tenants), "settling": _SETTLING_JOBS}
            since = since or (await connection.execute(_BEGIN, given)).scalar()
            if since is None:
                continue
            until = (await connection.execute(_NOW)).scalar_one()
            if (await connection.execute(_ENDED, {"since": since})).scalar_one() < jobs:
                continue
            if (await connection.execute(_BACKLOGGED)).scalar_one() != len(tenants):
                raise ValueError("a tenant ran out of work")
            found = await connection.execute(
                _SERVED,
                {
                    "since": since, "until": until, "input_cost": DEFAULT.input_cost,
                    "output_cost": DEFAULT.output_cost,
                },
            )  # fmt: skip
            rows = {row[0]: row for row in found}
        ordered = [rows[tenant] for tenant in tenants]
        return Served(
            [float(row[1]) for row in ordered], [int(row[2]) for row in ordered], [row[3] for row in ordered]
        )
    raise TimeoutError(f"fewer than {jobs} jobs ended in {_WAIT_SECONDS} s")
