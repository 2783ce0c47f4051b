"""Memory of ingest does not grow with the file."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from uuid import UUID

import pytest

from .conftest import Desk, request

LINES = 30_000
GROWTH_MIB = 64


def resident_mib() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / (1 << 20)


async def growth_of_validation(desk: Desk) -> float:
    """MiB by which this process grows while it validates the one waiting batch."""
    before = peak = resident_mib()
    run = asyncio.create_task(desk.ingest.run_once())
    while not run.done():
        await asyncio.wait({run}, timeout=0.02)
        peak = max(peak, resident_mib())
    assert run.result()
    return peak - before


async def long_file(desk: Desk, *, same_id: bool) -> UUID:
    """A file of more than 90 MB."""
    key = "uploads/long"
    async with desk.parts.objects.writer(key) as handle:
        for line in range(LINES):
            value = request("same" if same_id else f"{line}", "x" * 3_000)
            await handle.write(json.dumps(value).encode() + b"\n")
    return await desk.batch_of(key)


@pytest.mark.parametrize("same_id", [False, True], ids=["good", "duplicates"])
async def test_a_long_file_needs_no_more_memory_than_a_piece_of_it(desk: Desk, same_id: bool) -> None:
    batch = await long_file(desk, same_id=same_id)
    assert await growth_of_validation(desk) < GROWTH_MIB
    state = await desk.state(batch)
    if same_id:
        assert (state.status, state.errors_total) == ("failed", LINES - 1)
    else:
        assert (state.status, state.total) == ("in_progress", LINES)
        [jobs] = await desk.rows("SELECT count(*) AS all, count(DISTINCT line) AS lines FROM jobs")
        assert (jobs.all, jobs.lines) == (LINES, LINES)
