"""Erasing: bytes go when their time is over or nothing names them, and never sooner."""

from __future__ import annotations

import os
import time
from pathlib import Path
from uuid import UUID

import pytest
from celery import Celery
from sqlalchemy import insert

from db.objects import ObjectLost, Objects
from db.redis.doorbell import Doorbell
from db.tables import batches, files
from tests.world import World
from workers.maintenance.housekeeping import Housekeeping
from workers.maintenance.orphans import Orphans
from workers.maintenance.services import Parts


@pytest.fixture
def parts(world: World, objects: Objects) -> Parts:
    return Parts(world.database, objects, Doorbell(Celery()), world.policy)


async def upload(world: World, objects: Objects, tenant: UUID, key: str) -> UUID:
    await objects.put(key, b"{}")
    return await world.scalar(
        insert(files)
        .values(tenant_id=tenant, purpose="batch", filename="a.jsonl", bytes=2, object_key=key)
        .returning(files.c.id)
    )


async def is_there(objects: Objects, key: str) -> bool:
    try:
        await objects.read_ranges(key, [(0, 1)])
    except ObjectLost:
        return False
    return True


async def test_deleted_bytes_wait_for_the_batch_that_validates_them(
    world: World, objects: Objects, parts: Parts
) -> None:
    tenant = await world.tenant()
    needed, free = [await upload(world, objects, tenant, key) for key in ("uploads/1", "uploads/2")]
    batch = await world.scalar(
        insert(batches)
        .values(
            tenant_id=tenant, endpoint="/v1/chat/completions", input_file_id=needed, completion_window="1h",
            expires_at="2100-01-01",
        )
        .returning(batches.c.id)
    )  # fmt: skip
    await world.execute("UPDATE files SET deleted_at = clock_timestamp()")

    await Housekeeping(parts).run_once()

    assert await is_there(objects, "uploads/1")
    assert not await is_there(objects, "uploads/2")
    [erased] = await world.rows("SELECT id FROM files WHERE erased_at IS NOT NULL")
    assert erased.id == free
    await world.execute(
        "UPDATE batches SET status = 'failed', failed_at = clock_timestamp() WHERE id = :id", id=batch
    )
    await Housekeeping(parts).run_once()
    assert not await is_there(objects, "uploads/1")


async def test_a_file_past_its_expiry_is_deleted(world: World, objects: Objects, parts: Parts) -> None:
    await upload(world, objects, await world.tenant(), "uploads/1")
    await world.execute("UPDATE files SET expires_at = clock_timestamp() - interval '1 s'")

    await Housekeeping(parts).run_once()

    assert not await is_there(objects, "uploads/1")


async def test_only_old_objects_without_a_row_are_orphans(
    world: World, objects: Objects, parts: Parts, tmp_path: Path
) -> None:
    await upload(world, objects, await world.tenant(), "uploads/named")
    await objects.put("uploads/old", b"x")
    await objects.put("segments/a/1/young", b"x")
    long_ago = time.time() - 2 * 24 * 3600
    for key in ("uploads/named", "uploads/old"):
        os.utime(tmp_path / "objects" / key, (long_ago, long_ago))

    await Orphans(parts).run_once()

    assert await is_there(objects, "uploads/named")
    assert await is_there(objects, "segments/a/1/young")
    assert not await is_there(objects, "uploads/old")


async def test_the_partitions_of_the_coming_days_are_made(world: World, parts: Parts) -> None:
    await Housekeeping(parts).run_once()

    rows = await world.rows(
        "SELECT count(*) AS days FROM pg_class WHERE relkind = 'r' AND relname = ANY("
        " SELECT 'jobs_done_' || to_char(now() AT TIME ZONE 'UTC' + n * interval '1 day', 'YYYYMMDD')"
        " FROM generate_series(0, 3) AS n)"
    )
    assert rows[0].days == 4
