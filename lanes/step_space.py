"""Seats and KV blocks of one engine step: who may enter, and who must leave for it.

Bulk may hold what is left once urgent requests have what they hold and need now, and at least
the reserve. A need takes from bulk all that it must; a mere reserve never takes, nor keeps out,
the last bulk request, or a long one on a small engine would never end.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import NamedTuple

from lanes.step_values import BulkRequest, StepKnobs, StepView


class Space(NamedTuple):
    admit_urgent: int
    admit_bulk: int
    preempt: Sequence[BulkRequest]  # newest first


def space(view: StepView, knobs: StepKnobs) -> Space:
    """Share out the seats and blocks of `view`."""
    entering, need = _entering(view)
    seats_needed = len(view.urgent) + entering
    bulk_seats = view.seats - max(seats_needed, min(knobs.reserve_seats, view.seats - 1))
    reserve = int(knobs.reserve_block_share * view.total_blocks) - view.urgent_blocks
    preempt = _leaving(view, bulk_seats, need - view.free_blocks, reserve - view.free_blocks)
    if preempt or len(view.waiting_urgent) > entering:
        return Space(entering, 0, preempt)  # nobody enters past an urgent request that cannot
    blocks = view.free_blocks - max(need, reserve)
    admit = min(bulk_seats - len(view.bulk), blocks // max(1, view.next_bulk_blocks))
    if not view.bulk and admit < 1 and seats_needed < view.seats:
        # The first may enter the reserve. An empty engine knows best what fits.
        admit = not seats_needed or need + view.next_bulk_blocks <= view.free_blocks
    return Space(entering, max(0, min(view.waiting_bulk, admit)), ())


def newest(requests: Iterable[BulkRequest]) -> list[BulkRequest]:
    """The newest first."""
    return sorted(requests, key=attrgetter("order"), reverse=True)


def beyond_pause_bound(withheld: Sequence[BulkRequest], blocks: int) -> list[BulkRequest]:
    """The newest of `withheld` that must go so that the others hold at most `blocks`; never all of them."""
    held = sum(request.blocks for request in withheld)
    if held <= blocks:
        return []
    leaving = []
    for request in newest(withheld)[:-1]:
        if held <= blocks:
            break
        leaving.append(request)
        held -= request.blocks
    return leaving


def _entering(view: StepView) -> tuple[int, int]:
    """How many waiting urgent requests can enter if bulk gives way, and the blocks that urgent ones need."""
    need = sum(request.blocks for request in view.urgent)
    obtainable = view.total_blocks - view.urgent_blocks
    entering = 0
    for request in view.waiting_urgent[: view.seats - len(view.urgent)]:
        if need + request.blocks > obtainable:
            break
        need += request.blocks
        entering += 1
    if view.waiting_urgent and not entering and not view.urgent and not view.bulk:
        return 1, need  # the engine is empty: it alone knows whether this one fits
    return entering, need


def _leaving(view: StepView, bulk_seats: int, blocks_needed: int, blocks_reserved: int) -> list[BulkRequest]:
    """The newest bulk, only as many as must give a seat or `blocks_needed`, or restore the reserve."""
    staying = len(view.bulk)
    if staying <= bulk_seats and blocks_needed <= 0 and blocks_reserved <= 0:
        return []
    leaving: list[BulkRequest] = []
    freed = 0
    for request in newest(view.bulk):
        reserve_short = blocks_reserved > freed and staying > 1
        if staying <= bulk_seats and blocks_needed <= freed and not reserve_short:
            break
        leaving.append(request)
        freed += request.blocks
        staying -= 1
    return leaving
