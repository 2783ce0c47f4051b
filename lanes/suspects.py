"""Who killed an engine: its jobs run again in halves until the culprit is alone.

Each death under n jobs makes two groups of n/2, and each group runs with an engine to itself. One
killer among n costs at most ceil(log2 n) + 1 engines, and everybody else ends well.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


def halves(held: Sequence[T]) -> tuple[tuple[T, ...], ...]:
    """The groups in which the jobs of a dead engine run next, in their order.

    Two groups for two jobs or more. None for a job that was alone: it is the culprit, and ends
    with `failure.ENGINE_KILLER`. None for an empty engine.
    """
    if len(held) < 2:
        return ()
    middle = (len(held) + 1) // 2
    return tuple(held[:middle]), tuple(held[middle:])
