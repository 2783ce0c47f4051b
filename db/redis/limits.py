"""What a tenant may take a minute and at once: requests, tokens and live jobs, taken together or not at all.

Losing Redis gives nobody more than the sustained rate: buckets begin empty then, and live jobs are
counted from the database again. A RedisError is left to the caller, who knows what goes on without limits.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from enum import StrEnum
from importlib.resources import files
from typing import cast
from uuid import UUID

from redis.asyncio import Redis

_PREFIX = "fairlane:limits"
_GRACE_MICROSECONDS = 5_000_000  # from taking a lease to the commit of its job
_MICROSECONDS = 1_000_000


class Limit(StrEnum):
    """Which limit said no."""

    REQUESTS = "requests"
    TOKENS = "tokens"
    CONCURRENCY = "concurrency"


@dataclass(frozen=True, slots=True)
class Limits:
    """A tenant's limits; None is no limit."""

    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    concurrency: int | None = None


@dataclass(frozen=True, slots=True)
class Level:
    """How much of a bucket is left, and how long until it is full."""

    remaining: int
    reset_seconds: float


@dataclass(frozen=True, slots=True)
class Taking:
    """What came of asking. `retry_after_seconds` is None where waiting never helps."""

    refused: Limit | None
    retry_after_seconds: float | None
    requests: Level
    tokens: Level
    leases_left: int


LiveJobs = Callable[[], Awaitable[Collection[UUID]]]


class RateLimits:
    """The buckets and leases of all tenants, in one Redis."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        source = files("db.redis").joinpath("limits.lua").read_text(encoding="utf-8")
        self._script = redis.register_script(source)

    async def take(
        self,
        tenant_id: UUID,
        limits: Limits,
        lease: UUID,
        tokens: int,
        live_jobs: LiveJobs,
        *,
        now_microseconds: int | None = None,
    ) -> Taking:
        """Take one request, its tokens and a lease. Redis's clock decides unless a time is given.

        `live_jobs` reads the tenant's live jobs; it is asked only where the leases were lost or all
        seem taken, since a job that ended tells nobody here.
        """
        arguments: list[str | int] = [
            limits.requests_per_minute or 0,
            limits.tokens_per_minute or 0,
            limits.concurrency or 0,
            1,
            tokens,
            str(lease),
            "" if now_microseconds is None else now_microseconds,
            _GRACE_MICROSECONDS,
        ]
        answer = await self._run(tenant_id, [*arguments, "0"])
        if answer[0] in {"unknown", Limit.CONCURRENCY}:
            live = [str(job) for job in await live_jobs()]
            answer = await self._run(tenant_id, [*arguments, "1", *live])
        refused, wait, *rest = answer
        numbers = [int(number) for number in rest]
        return Taking(
            refused=Limit(refused) if refused else None,
            retry_after_seconds=None if int(wait) < 0 else int(wait) / _MICROSECONDS,
            requests=Level(numbers[0], numbers[1] / _MICROSECONDS),
            tokens=Level(numbers[2], numbers[3] / _MICROSECONDS),
            leases_left=numbers[4],
        )

    async def release(self, tenant_id: UUID, lease: UUID) -> None:
        """Give a lease back early: its job was not made, or has ended."""
        await self._redis.zrem(_keys(tenant_id)[3], str(lease))

    async def _run(self, tenant_id: UUID, arguments: list[str | int]) -> list[str]:
        answer = cast("list[bytes | str]", await self._script(keys=_keys(tenant_id), args=arguments))
        return [part.decode() if isinstance(part, bytes) else part for part in answer]


def _keys(tenant_id: UUID) -> list[str]:
    tenant = f"{_PREFIX}:{tenant_id}"
    return [f"{_PREFIX}:epoch", f"{tenant}:requests", f"{tenant}:tokens", f"{tenant}:leases"]
