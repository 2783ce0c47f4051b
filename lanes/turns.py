"""Whose turn it is: the least virtual time, and whoever has the turn keeps it for a quantum."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar


@dataclass(slots=True, eq=False)
class Contender:
    """Somebody who waits for turns. Its virtual time may only rise; `out` is for ever."""

    vtime: float
    weight: float
    out: bool = False

    def charge(self, cost: float) -> None:
        self.vtime += cost / self.weight


C = TypeVar("C", bound=Contender)


class Turns(Generic[C]):
    """Turns among contenders; between equals, whoever was named first.

    With a quantum of 0 the next one is always the least. Else it stays until it is `quantum` cost,
    over its weight, ahead of the least of the others: so far its share may be off, and no further.
    """

    def __init__(self, contenders: Iterable[C], quantum: float) -> None:
        self._quantum = quantum
        self._heap = [(contender.vtime, number, contender) for number, contender in enumerate(contenders)]
        heapq.heapify(self._heap)
        self._holder: tuple[float, int, C] | None = None

    def next(self) -> C | None:
        """Who has the turn now; None when all are out."""
        least = self._least()
        if self._holder is not None:
            _, number, holder = self._holder
            if not holder.out:
                if least is None or holder.vtime < least.vtime + self._quantum / holder.weight:
                    return holder
                heapq.heappush(self._heap, (holder.vtime, number, holder))
                least = self._least()
        self._holder = heapq.heappop(self._heap) if least is not None else None
        return least

    def _least(self) -> C | None:
        """The least in the heap, once those that left or moved on meanwhile are put right."""
        while self._heap:
            vtime, number, contender = self._heap[0]
            if contender.out:
                heapq.heappop(self._heap)
            elif contender.vtime > vtime:
                heapq.heapreplace(self._heap, (contender.vtime, number, contender))
            else:
                return contender
        return None
