"""Requests, tokens and leases are taken together, and a lost Redis gives nobody a burst."""

from __future__ import annotations

from collections.abc import AsyncIterator
from uuid import UUID, uuid4

import pytest
from redis.asyncio import Redis

from db.embedded import EmbeddedServers
from db.redis.limits import Limit, Limits, RateLimits, Taking

SECOND = 1_000_000
START = 1_800_000_000 * SECOND
LATER = START + 600 * SECOND  # long after the epoch began: buckets are full


@pytest.fixture
async def redis(servers: EmbeddedServers) -> AsyncIterator[Redis]:
    """A database of Valkey that nothing else in the run uses, empty."""
    client = Redis.from_url(servers.redis_url, db=9)
    await client.flushdb()
    yield client
    await client.aclose()


class Tenant:
    """A tenant that asks at times the test names."""

    def __init__(self, redis: Redis, limits: Limits) -> None:
        self._rates, self._limits, self.id = RateLimits(redis), limits, uuid4()
        self.live: list[UUID] = []

    async def take(self, now: int, tokens: int = 1) -> Taking:
        return await self._rates.take(
            self.id, self._limits, uuid4(), tokens, self._live, now_microseconds=now
        )

    async def granted(self, start: int, seconds: int, tokens: int = 1) -> int:
        """How many of ten asks a second are granted."""
        times = range(start, start + seconds * SECOND, SECOND // 10)
        return sum([(await self.take(now, tokens)).refused is None for now in times])

    async def _live(self) -> list[UUID]:
        return self.live


async def settled(redis: Redis) -> None:
    """The epoch began long before LATER."""
    await Tenant(redis, Limits()).take(START)


async def test_a_full_bucket_gives_its_limit_at_once_and_says_when_to_come_back(redis: Redis) -> None:
    await settled(redis)
    tenant = Tenant(redis, Limits(requests_per_minute=60))
    assert [(await tenant.take(LATER)).refused for _ in range(60)] == [None] * 60
    refused = await tenant.take(LATER)
    assert (refused.refused, refused.retry_after_seconds) == (Limit.REQUESTS, 1.0)
    assert (refused.requests.remaining, refused.requests.reset_seconds) == (0, 60.0)
    assert (await tenant.take(LATER + SECOND)).refused is None


async def test_a_refusal_by_one_limit_takes_from_none(redis: Redis) -> None:
    await settled(redis)
    tenant = Tenant(redis, Limits(requests_per_minute=10, tokens_per_minute=100, concurrency=5))
    assert (await tenant.take(LATER, tokens=90)).leases_left == 4
    refused = await tenant.take(LATER, tokens=50)
    assert refused.refused is Limit.TOKENS
    assert (refused.requests.remaining, refused.tokens.remaining, refused.leases_left) == (9, 10, 4)


async def test_a_request_above_the_whole_limit_is_told_that_waiting_never_helps(redis: Redis) -> None:
    tenant = Tenant(redis, Limits(requests_per_minute=1, tokens_per_minute=100))
    refused = await tenant.take(START, tokens=101)
    assert (refused.refused, refused.retry_after_seconds) == (Limit.TOKENS, None)


@pytest.mark.parametrize(
    ("limits", "tokens"), [(Limits(requests_per_minute=120), 1), (Limits(tokens_per_minute=1200), 10)]
)
async def test_after_a_flush_under_load_nobody_exceeds_the_sustained_rate(
    redis: Redis, limits: Limits, tokens: int
) -> None:
    await settled(redis)
    busy, idle = Tenant(redis, limits), Tenant(redis, limits)
    assert await busy.granted(LATER, 10, tokens) > 50  # a burst, while nothing is lost
    await redis.flushdb()
    lost = LATER + 10 * SECOND
    assert 110 <= await busy.granted(lost, 60, tokens) <= 120
    await redis.flushdb()
    lost += 60 * SECOND
    await busy.take(lost)  # the epoch begins with whoever asks first
    assert await idle.granted(lost + 30 * SECOND, 30, tokens) <= 120


async def test_leases_are_counted_from_the_live_jobs_after_a_loss(redis: Redis) -> None:
    tenant = Tenant(redis, Limits(concurrency=3))
    tenant.live = [uuid4(), uuid4()]
    assert (await tenant.take(START)).leases_left == 0
    assert (await tenant.take(START)).refused is Limit.CONCURRENCY
    await redis.flushdb()
    tenant.live = [uuid4() for _ in range(3)]
    assert (await tenant.take(START + SECOND)).refused is Limit.CONCURRENCY


async def test_a_job_that_ended_frees_its_lease_without_telling(redis: Redis) -> None:
    tenant = Tenant(redis, Limits(concurrency=1))
    assert (await tenant.take(START)).refused is None
    assert (await tenant.take(START + SECOND)).refused is Limit.CONCURRENCY  # may not be written yet
    assert (await tenant.take(START + 6 * SECOND)).refused is None


async def test_a_lease_given_back_is_free_at_once(redis: Redis) -> None:
    rates, tenant, lease = RateLimits(redis), uuid4(), uuid4()

    async def live() -> list[UUID]:
        return []

    limits = Limits(concurrency=1)
    assert (await rates.take(tenant, limits, lease, 1, live)).refused is None
    assert (await rates.take(tenant, limits, uuid4(), 1, live)).refused is Limit.CONCURRENCY
    await rates.release(tenant, lease)
    assert (await rates.take(tenant, limits, uuid4(), 1, live)).refused is None
