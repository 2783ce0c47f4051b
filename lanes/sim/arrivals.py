"""Arrival times. Chance comes in as numbers drawn elsewhere, uniform in [0, 1)."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate
from math import log


def poisson(draws: Iterable[float], per_second: float) -> list[float]:
    """Seconds at which arrivals of a Poisson process come, one for each draw."""
    return list(accumulate(-log(1.0 - draw) / per_second for draw in draws))
