"""Faults drawn from a seed."""

from __future__ import annotations

from collections.abc import Sequence
from math import log
from uuid import UUID

from lanes.sim.queue_values import Draw, Fault, FaultKind

_TO_WORKERS = (FaultKind.EVICT, FaultKind.STALL, FaultKind.DRAIN)
_LONGEST_STALL = 40.0  # seconds; leases end within


def drawn_faults(
    draw: Draw, *, workers: int, horizon: float, every: float, flows: Sequence[UUID]
) -> list[Fault]:
    """Faults of a Poisson process until `horizon`, one each `every` seconds on average.

    Each meets one of the workers; `flows` are cancelled at some moment, each once.
    """
    faults = [Fault(draw() * horizon, FaultKind.CANCEL, flow_id=flow_id) for flow_id in flows]
    at = 0.0
    while (at := at - every * log(1.0 - draw())) < horizon:
        kind = _TO_WORKERS[int(draw() * len(_TO_WORKERS))]
        faults.append(Fault(at, kind, int(draw() * workers), draw() * _LONGEST_STALL))
    return faults
