"""A validation that dies anywhere leaves nothing that can be seen, and the next one does it all."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from uuid import UUID

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import create_async_engine

from .conftest import Desk, jsonl, request
from .stores import InterruptedObjects, StoreDown, UnreadableObjects, go_down

LINES = 40
SEGMENTS = 6  # of 7 lines each
WHOLE = {n: (str(n), f"prompt {n}") for n in range(1, LINES + 1)}
BAD = jsonl(LINES) + json.dumps(request("1")).encode() + b"\n{}\n"


@pytest.fixture
def small(desk: Desk) -> Desk:
    return desk.with_policy(segment_lines=7)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "objects"  # where the desk keeps its objects too


def stored(folder: Path, kind: str) -> int:
    return sum(1 for path in (folder / kind).rglob("*") if path.is_file())


async def assert_untouched(desk: Desk, batch: UUID) -> None:
    state = await desk.state(batch)
    assert (state.status, state.total, state.errors) == ("validating", None, None)
    for table in ("jobs", "jobs_done", "outcomes", "batch_progress", "lane_accounts"):
        assert await desk.rows(f"SELECT FROM {table}") == []
    assert not await desk.ingest.run_once(), "its lease must run out first"


async def assert_whole(desk: Desk, batch: UUID, folder: Path) -> None:
    assert await desk.ingest.run_once()
    assert (await desk.state(batch)).status == "in_progress"
    assert await desk.queued(batch) == WHOLE
    assert stored(folder, "segments") == len(await desk.rows("SELECT FROM segments")) == SEGMENTS


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("at", range(1, SEGMENTS + 1))
async def test_the_store_fails_at_a_segment(small: Desk, folder: Path, at: int, after: bool) -> None:
    batch = await small.batch(jsonl(LINES))
    broken = small.with_objects(InterruptedObjects(folder, at, go_down, after=after))
    with pytest.raises(StoreDown):
        await broken.ingest.run_once()
    assert stored(folder, "segments") == (at if after else at - 1)
    await assert_untouched(small, batch)
    await small.run_out()
    await assert_whole(small, batch, folder)


async def test_crashes_in_a_row(small: Desk, folder: Path) -> None:
    batch = await small.batch(jsonl(LINES))
    for at in (3, 1, 5):
        with pytest.raises(StoreDown):
            await small.with_objects(InterruptedObjects(folder, at, go_down)).ingest.run_once()
        await small.run_out()
    await assert_whole(small, batch, folder)
    assert (await small.state(batch)).fence == 4


@pytest.mark.parametrize("after", [False, True])
async def test_the_store_fails_at_the_list_of_errors(small: Desk, folder: Path, after: bool) -> None:
    batch = await small.batch(BAD)
    list_of_errors = SEGMENTS  # the last segment is not written: by then the file is known to be bad
    broken = small.with_objects(InterruptedObjects(folder, list_of_errors, go_down, after=after))
    with pytest.raises(StoreDown):
        await broken.ingest.run_once()
    await assert_untouched(small, batch)
    await small.run_out()
    assert await small.ingest.run_once()
    state = await small.state(batch)
    assert (state.status, state.errors_total) == ("failed", 2)
    assert (stored(folder, "segments"), stored(folder, "errors")) == (0, 1)
    assert await small.rows("SELECT FROM segments") == []


@pytest.mark.parametrize("at", [1, SEGMENTS])
async def test_the_database_ends_every_session(small: Desk, folder: Path, at: int) -> None:
    async def cut() -> None:
        await small.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )

    batch = await small.batch(jsonl(LINES))
    with pytest.raises(DBAPIError):
        await small.with_objects(InterruptedObjects(folder, at, cut, after=True)).ingest.run_once()
    await assert_untouched(small, batch)
    await small.run_out()
    await assert_whole(small, batch, folder)


@pytest.mark.parametrize("at", [1, SEGMENTS])
async def test_cancelling_the_task(small: Desk, folder: Path, at: int) -> None:
    reached = asyncio.Event()

    async def wait_for_ever() -> None:
        reached.set()
        await asyncio.Event().wait()

    batch = await small.batch(jsonl(LINES))
    run = asyncio.create_task(
        small.with_objects(InterruptedObjects(folder, at, wait_for_ever)).ingest.run_once()
    )
    await asyncio.wait_for(reached.wait(), 10)
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    await assert_untouched(small, batch)
    await small.run_out()
    await assert_whole(small, batch, folder)


@pytest.mark.parametrize("table", ["jobs", "jobs_done", "outcomes", "batch_progress", "lane_accounts"])
async def test_the_last_transaction_fails_as_a_whole(
    small: Desk, folder: Path, table: str, database_url: str
) -> None:
    """Whichever of its writes fails, nothing of the batch is there."""
    batch = await small.batch(BAD, "record")
    await _as_owner(database_url, f"ALTER TABLE {table} ADD CONSTRAINT broken CHECK (false) NOT VALID")
    with pytest.raises(DBAPIError):
        await small.ingest.run_once()
    await _as_owner(database_url, f"ALTER TABLE {table} DROP CONSTRAINT broken")
    await assert_untouched(small, batch)
    await small.run_out()
    assert await small.ingest.run_once()
    assert await small.queued(batch) == WHOLE
    assert len(await small.rows("SELECT FROM jobs_done")) == 2


async def _as_owner(database_url: str, command: str) -> None:
    engine = create_async_engine(database_url)
    async with engine.begin() as connection:
        await connection.execute(text(command))
    await engine.dispose()


async def test_an_upload_that_reads_badly_is_tried_again(small: Desk, folder: Path) -> None:
    batch = await small.batch(jsonl(LINES))
    with pytest.raises(StoreDown):
        await small.with_objects(UnreadableObjects(folder.as_uri())).ingest.run_once()
    await small.run_out()
    await assert_whole(small, batch, folder)
