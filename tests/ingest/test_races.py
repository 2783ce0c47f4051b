"""Two validations, a lost lease and a cancel: at most one of them writes, and only what it may."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from .conftest import Desk, jsonl
from .stores import InterruptedObjects
from .test_crash import BAD, LINES, SEGMENTS, WHOLE, stored


@pytest.fixture
def small(desk: Desk) -> Desk:
    return desk.with_policy(segment_lines=7)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "objects"


async def test_of_two_at_once_one_takes_the_batch(small: Desk) -> None:
    batch = await small.batch(jsonl(LINES))
    assert sorted(await asyncio.gather(*(small.ingest.run_once() for _ in range(4)))) == [False] * 3 + [True]
    assert await small.queued(batch) == WHOLE
    assert (await small.state(batch)).fence == 1


async def test_two_at_once_share_the_batches(small: Desk) -> None:
    batches = [await small.batch(jsonl(LINES)) for _ in range(4)]
    assert all(await asyncio.gather(*(small.ingest.run_once() for _ in range(4))))
    for batch in batches:
        assert await small.queued(batch) == WHOLE


@pytest.mark.parametrize("at", range(1, SEGMENTS + 1))
async def test_a_zombie_that_lost_its_lease_changes_nothing(small: Desk, folder: Path, at: int) -> None:
    """It wakes up when another has done the work, at each of its segments."""

    async def lose() -> None:
        await small.run_out()
        assert await small.ingest.run_once()

    batch = await small.batch(jsonl(LINES))
    store = InterruptedObjects(folder, at, lose)
    assert await small.with_objects(store).ingest.run_once()
    assert store.writes == at, "it went on writing"
    state = await small.state(batch)
    assert (state.status, state.fence, state.total) == ("in_progress", 2, LINES)
    assert await small.queued(batch) == WHOLE
    assert stored(folder, "segments") == len(await small.rows("SELECT FROM segments")) == SEGMENTS


async def test_a_zombie_overtaken_in_mid_validation(small: Desk, folder: Path) -> None:
    """Both are half-way; the older one ends first."""
    overtaken, zombie_gone = asyncio.Event(), asyncio.Event()

    async def let_zombie_end() -> None:
        overtaken.set()
        await zombie_gone.wait()

    async def wait_until_overtaken() -> None:
        await small.run_out()
        younger.append(
            asyncio.create_task(
                small.with_objects(InterruptedObjects(folder, 3, let_zombie_end)).ingest.run_once()
            )
        )
        await overtaken.wait()

    younger: list[asyncio.Task[bool]] = []
    batch = await small.batch(jsonl(LINES))
    async with asyncio.timeout(20):
        zombie = small.with_objects(InterruptedObjects(folder, SEGMENTS, wait_until_overtaken, after=True))
        assert await zombie.ingest.run_once()
        zombie_gone.set()
        assert await younger[0]
    assert await small.queued(batch) == WHOLE
    assert stored(folder, "segments") == SEGMENTS


@pytest.mark.parametrize("data", [jsonl(LINES), BAD], ids=["good", "bad"])
@pytest.mark.parametrize("at", [1, SEGMENTS])
async def test_a_cancel_in_the_middle_wins(small: Desk, folder: Path, data: bytes, at: int) -> None:
    async def cancel() -> None:
        await small.execute(
            "UPDATE batches SET status = 'cancelling', cancelling_at = clock_timestamp() WHERE id = :id",
            id=batch,
        )

    batch = await small.batch(data)
    assert await small.with_objects(InterruptedObjects(folder, at, cancel, after=True)).ingest.run_once()
    state = await small.state(batch)
    assert (state.status, state.total, state.errors) == ("cancelling", None, None)
    assert state.lease_until is None, "the end of the batch would wait for the lease"
    assert await small.rows("SELECT FROM jobs UNION ALL SELECT FROM lane_accounts") == []
    assert (stored(folder, "segments"), stored(folder, "errors")) == (0, 0)
    assert await small.rows("SELECT FROM segments") == []
    assert await small.rows("SELECT FROM files WHERE purpose = 'batch_output'") == []
    assert not await small.ingest.run_once()


async def test_a_long_validation_keeps_its_lease(small: Desk, folder: Path) -> None:
    """While one segment takes longer than a lease, nobody else may take the batch."""

    async def outlast_the_lease() -> None:
        [first] = await brief.rows("SELECT lease_until FROM batches")
        while not (await brief.rows("SELECT clock_timestamp() > :first AS past", first=first.lease_until))[
            0
        ].past:
            assert not await brief.ingest.run_once()

    brief = small.with_policy(ingest_lease_seconds=1.0)
    batch = await brief.batch(jsonl(LINES))
    async with asyncio.timeout(20):
        slow = brief.with_objects(InterruptedObjects(folder, 2, outlast_the_lease))
        assert await slow.ingest.run_once()
    assert (await brief.state(batch)).fence == 1
    assert await brief.queued(batch) == WHOLE
