"""Quantiles of a series."""

from __future__ import annotations

from collections.abc import Iterable


def quantile(values: Iterable[float], share: float) -> float:
    """The value below which `share` of the others lie, between neighbours in proportion.

    Raises:
        IndexError: there are no values.
    """
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])
