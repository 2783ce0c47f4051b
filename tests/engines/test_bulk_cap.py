"""Bulk beyond the cap waits in this process; P0 passes; whoever gives up leaves no trace."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from lanes.aimd import CapKnobs
from lanes.lane import Lane
from lanes.policy import DEFAULT
from workers.engines.port import EngineDead
from workers.engines.vllm.bulk_cap import BulkGate

LATE = CapKnobs(target_ttft_ms=-1.0, decrease=0.5, quiet_seconds=1e9)  # every first token is late


class Visitors:
    def __init__(self, gate: BulkGate) -> None:
        self.gate = gate
        self.inside: list[str] = []
        self.leave: dict[str, asyncio.Event] = {}

    async def _visit(self, name: str, lane: Lane) -> None:
        async with self.gate.inside(lane):
            self.inside.append(name)
            await self.leave[name].wait()
        self.inside.remove(name)

    async def enter(self, name: str, lane: Lane = Lane.BULK) -> asyncio.Task[None]:
        self.leave[name] = asyncio.Event()
        task = asyncio.create_task(self._visit(name, lane))
        await turns()
        return task


async def turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def late_first_token(gate: BulkGate) -> None:
    processor = SimpleNamespace(add_request=lambda _: None, process_outputs=lambda _: None, request_states={})
    gate.watch(SimpleNamespace(output_processor=processor))
    processor.add_request(SimpleNamespace(request_id="a", priority=0))
    processor.process_outputs([SimpleNamespace(request_id="a")])


async def test_bulk_waits_for_a_place_in_turn_and_p0_passes() -> None:
    visitors = Visitors(BulkGate(2, DEFAULT.step, LATE))
    for name in "abcd":
        await visitors.enter(name)
    await visitors.enter("p0", Lane.INTERACTIVE)
    assert visitors.inside == ["a", "b", "p0"]
    stats = visitors.gate.stats()
    assert [stats.of(lane).running for lane in Lane] == [1, 0, 2]
    assert stats.of(Lane.BULK).waiting == 2
    visitors.leave["a"].set()
    await turns()
    assert visitors.inside == ["b", "p0", "c"]


async def test_a_late_p0_lowers_the_number_inside() -> None:
    gate = BulkGate(4, DEFAULT.step, LATE)
    late_first_token(gate)
    visitors = Visitors(gate)
    for name in "abcd":
        await visitors.enter(name)
    assert visitors.inside == ["a", "b"]


async def test_who_gives_up_leaves_no_trace() -> None:
    visitors = Visitors(BulkGate(1, DEFAULT.step, LATE))
    await visitors.enter("a")
    waiting = await visitors.enter("b")
    chosen = await visitors.enter("c")
    waiting.cancel()
    await turns()
    visitors.leave["a"].set()
    await asyncio.sleep(0)  # "a" leaves and hands its place to "c", which is cancelled before it can take it
    chosen.cancel()
    await turns()
    await visitors.enter("d")
    assert visitors.inside == ["d"]
    assert visitors.gate.stats().of(Lane.BULK).waiting == 0


async def test_closing_ends_those_who_wait() -> None:
    visitors = Visitors(BulkGate(1, DEFAULT.step, LATE))
    await visitors.enter("a")
    waiting = await visitors.enter("b")
    visitors.gate.close()
    with pytest.raises(EngineDead):
        await waiting
