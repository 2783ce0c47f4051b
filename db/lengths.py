"""What was learned of finished jobs: answer lengths for the estimates, service rates for the plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import Numeric, cast, func, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from db.sql import statement
from db.tables import output_lengths, service_rates
from lanes.estimate import output_tokens
from lanes.lately import Lately
from lanes.lengths import LAST_BUCKET, bucket
from lanes.policy import Policy

# For width_bucket: how many of these a count reaches is its bucket, as `lanes.lengths.bucket` has it.
BUCKET_BOUNDS = [2**power + 1 for power in range(LAST_BUCKET)]
CHUNK = 5_000


@dataclass(frozen=True, slots=True)
class Predictor:
    """Predicts outputs of one tenant by what its finished jobs used."""

    seen: Mapping[tuple[str, int], Mapping[int, int]]  # (model, input bucket): jobs by output bucket
    policy: Policy

    def output_tokens(self, model: str, input_tokens: int, limit: int | None) -> int:
        """Predicted output of a request with that estimated input; never above its limit."""
        return output_tokens(limit, self.policy, self.seen.get((model, bucket(input_tokens))))


async def predictor(connection: AsyncConnection, tenant_id: UUID, policy: Policy) -> Predictor:
    """What is known of a tenant's answers now; a few hundred rows a model at most."""
    rows = await connection.execute(
        select(
            output_lengths.c.model,
            output_lengths.c.input_bucket,
            output_lengths.c.output_bucket,
            output_lengths.c.jobs,
        ).where(output_lengths.c.tenant_id == tenant_id)
    )
    seen: dict[tuple[str, int], dict[int, int]] = {}
    for model, input_bucket, output_bucket, jobs in rows:
        seen.setdefault((model, input_bucket), {})[output_bucket] = jobs
    return Predictor(seen, policy)


async def fold_lengths(connection: AsyncConnection, policy: Policy) -> int:
    """Fold a chunk of what workers reported into the histograms and the service rates; how many rows."""
    lanes = (await connection.execute(statement("fold_lengths"), {"chunk": CHUNK})).all()
    for lane in lanes:
        await _measure(connection, lane.model, lane.lane, lane.cost, lane.jobs, policy)
    return sum(lane.deltas for lane in lanes)


async def _measure(
    connection: AsyncConnection, model: str, lane: int, cost: float, jobs: int, policy: Policy
) -> None:
    """Bring the service rate of one lane up to date.

    A long silence was idleness and says nothing of how fast the lane is: only what is served from
    then on counts.
    """
    rate = service_rates.c
    since = cast(func.extract("epoch", func.clock_timestamp() - rate.measured_at), Numeric)
    found = await connection.execute(
        select(rate.cost, rate.jobs, rate.seconds, since.label("since"))
        .where(rate.model == model, rate.lane == lane)
        .with_for_update()
    )
    row = found.one_or_none()
    served = Lately()
    if row is not None:
        served = Lately(row.cost, row.jobs, row.seconds)
        since_seconds = float(row.since)
        if since_seconds < policy.rate_half_life_seconds:
            served = served.after(since_seconds, cost, jobs, policy.rate_half_life_seconds)
    values: dict[str, object] = {
        "cost": served.cost,
        "jobs": served.jobs,
        "seconds": served.seconds,
        "measured_at": func.clock_timestamp(),
    }
    await connection.execute(
        insert(service_rates)
        .values(model=model, lane=lane, **values)
        .on_conflict_do_update(index_elements=[rate.model, rate.lane], set_=values)
    )
